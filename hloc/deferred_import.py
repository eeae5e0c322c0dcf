"""Deferred imports: modules that are loaded when an attribute is first read.

Importing NumPy takes longer than parsing a small module, and many commands need no array.
A command defers it before anything imports it; `import numpy as np` statements are unchanged.
"""

from __future__ import annotations

import sys
from _thread import RLock  # the only part of `threading` that is needed
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from hloc.address_space import prepare_numpy

_LOCK = RLock()


def defer_import(name: str) -> None:
    """Make `import name` free until the module is used, unless it is already imported."""
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    module.__class__ = _Deferred
    # Without a path, `import name.part` reads the attribute, which loads the module first.
    vars(module).pop("__path__", None)
    sys.modules[name] = module


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> object:
        with _LOCK:
            if type(self) is _Deferred and "_loading" not in vars(self):
                _load(self)  # which turns it into a plain module
        return ModuleType.__getattribute__(self, name)


def _load(module: ModuleType) -> None:
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    if module.__name__ == "numpy":
        prepare_numpy()
    vars(module)["_loading"] = True
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module.__name__]  # as `import` does
        raise
    module.__class__ = ModuleType
    del vars(module)["_loading"]
