"""Modules that are loaded when an attribute of them is first read.

NumPy takes longer to import than hloc takes to read a small module, and many commands make no
array. A command defers it before anything imports it, and `import numpy as np` stays where it is.
"""

from __future__ import annotations

import sys
from _thread import RLock  # all that is needed of `threading`
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from hloc.address_space import prepare_numpy

_LOCK = RLock()


def defer_import(name: str) -> None:
    """Let `import name` cost nothing until the module is used, unless it is already imported."""
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
                _load(self)  # which leaves a plain module
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
