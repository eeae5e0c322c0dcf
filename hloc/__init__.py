"""hloc: an HLO compiler in Python. See README.md and docs/architecture.md.

The public names are here; `import hloc` itself loads no large packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from hloc.ir.module_tools import TOOLS
from hloc.ir.notebook import DRAW

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from hloc.errors import HloError as HloError
    from hloc.ir.module import Module
    from hloc.jax.tracing import from_jax as from_jax
    from hloc.jax.tracing import jit as jit
    from hloc.notebook.show import show as show
    from hloc.notebook.slider import slider as slider
    from hloc.opt.pipeline import Pipeline as Pipeline
    from hloc.runtime.executable import Executable
    from hloc.runtime.loading import Runnable

__version__ = "0.1.0"

__all__ = [
    "HloError",
    "Pipeline",
    "compile",
    "evaluate",
    "from_jax",
    "jit",
    "load",
    "parse",
    "partition",
    "register_custom_call",
    "show",
    "slider",
]

_LAZY = {
    "HloError": "hloc.errors:HloError",
    "Pipeline": "hloc.opt.pipeline:Pipeline",
    "from_jax": "hloc.jax.tracing:from_jax",
    "jit": "hloc.jax.tracing:jit",
    "show": "hloc.notebook.show:show",
    "slider": "hloc.notebook.slider:slider",
    "load_ipython_extension": "hloc.notebook.magics:load_ipython_extension",
}
_DRAWN = {
    "Module": "hloc.pictures.html_text:module_html",
    "DiffTable": "hloc.pictures.diff_html:diff_html",
    "Graph": "hloc.notebook.drawings:graph_html",
    "MemoryReport": "hloc.notebook.drawings:memory_html",
    "PassReport": "hloc.notebook.show:report_html",
    "Roofline": "hloc.notebook.drawings:roofline_html",
}
"""Classes whose objects notebooks draw, with the drawing function."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'hloc' has no attribute {name!r}")
    return _load(_LAZY[name])


def _load(place: str) -> Any:
    """Return the object at `module:name`."""
    from importlib import import_module

    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _drawn(drawn: object) -> str:
    html: str = _load(_DRAWN[type(drawn).__name__])(drawn)
    return html


def _tool(name: str) -> Callable[..., Any]:
    return lambda *arguments: _load(f"hloc.report.module_tools:{name}")(*arguments)


DRAW.update(dict.fromkeys(_DRAWN, _drawn))
_METHODS = ("stats", "apply", "bind", "diff", "graph", "memory", "roofline", "find")
TOOLS.update({name: _tool(name) for name in _METHODS})


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def parse(text: str | bytes, verify: bool = True) -> Module:
    """Parse the text of a module.

    Args:
        text: HLO text in any spelling that XLA and JAX print.
        verify: also check shapes, attributes and structure.

    Raises:
        HloError: all errors that were found, with their places.
    """
    from hloc import driver

    return driver.parse_text(text, verify=verify)


def partition(module: Module | str, devices: int = 0) -> Module:
    """Partition an annotated module: return the program of each device (SPMD).

    Args:
        module: a module, which is not changed, or the text of one, with shardings.
        devices: number of partitions if the module does not have it.

    Raises:
        HloError: a sharding does not fit its array or the number of partitions.
        UnsupportedError: the module has several replicas.
    """
    from hloc import driver

    return driver.partition(module, devices)


def load(path: str, verify: bool = True) -> Module:
    """Parse the module in the file `path`, like `parse`."""
    from hloc import driver

    return driver.load_module(path, verify=verify)


@overload
def compile(
    module: Module | str, opt_level: int = 2, target: Literal["cpu"] = "cpu", **options: Any
) -> Executable: ...


@overload
def compile(
    module: Module | str, opt_level: int = 2, target: str = "cpu", **options: Any
) -> Runnable: ...


def compile(
    module: Module | str, opt_level: int = 2, target: str = "cpu", **options: Any
) -> Runnable:
    """Compile a module, or the text of one, to machine code.

    Args:
        module: it is not changed.
        opt_level: 0 to 3.
        target: name of a backend.
        options: other fields of `CompileOptions`, e.g. `fill_constants="zeros"`.

    Returns:
        An executable: call it with NumPy arrays, one per parameter leaf (tuples flattened depth
        first); it returns the list of result leaves.

    Raises:
        HloError: errors in the text, or an unknown option.
        UnsupportedError: the module is valid, but the target cannot run it.
    """
    from hloc import driver

    return driver.compile_module(module, driver.make_options(opt_level, target, options))


def evaluate(module: Module | str, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Run a module in the reference evaluator; arguments and results are as for an executable."""
    from hloc import driver

    return driver.evaluate(module, *arrays)


def register_custom_call(target: str, function: Callable[..., Any]) -> None:
    """Let `custom-call` with `custom_call_target="target"` call `function` with NumPy arrays."""
    from hloc.runtime import custom_calls

    custom_calls.register_custom_call(target, function)
