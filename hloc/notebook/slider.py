"""`hloc.slider(module)`: a widget that walks through the passes, as `hloc web` does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.notebook.pass_states import PassStates
from hloc.notebook.sources import module_in

if TYPE_CHECKING:
    from hloc.notebook.widget import PassSlider


def slider(what: Module | str, passes: str = "-O2") -> PassSlider:
    """Return a widget with a slider over the passes, and the diff at each state.

    Its `state` is the number of the state, which can be set; `module` is the module there.

    Args:
        what: a module, the text of one, or a JAX program of `hloc.from_jax`.
        passes: a level or passes: `"-O2"`, `"algsimp,cse"`.

    Raises:
        HloError: anywidget is not installed; a pass does not exist.
    """
    try:
        import_module("anywidget")
    except ImportError as fault:
        raise HloError(
            f"hloc.slider needs the package anywidget: {fault}",
            notes=("pip install 'hloc[notebook]'",),
        ) from None
    from hloc.notebook.widget import PassSlider

    return PassSlider(PassStates(module_in(what, "the argument of hloc.slider"), passes))
