"""`%load_ext hloc`: the magics `%hlo` and `%%hlo`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from hloc.cli.guard import guarded
from hloc.cli.talk import Talk
from hloc.notebook.magic_options import USAGE, read_options
from hloc.notebook.sources import module_named, module_of_cell
from hloc.notebook.views import views_of
from hloc.report.exits import Exit


class MagicError(Exception):
    """An error with the text of the command line; IPython shows only this text.

    It is raised, not printed, so that `Run All` and nbconvert stop.
    """

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def load_ipython_extension(shell: Any) -> None:
    """Register the magics `%hlo` and `%%hlo` in IPython; `%load_ext hloc` calls this."""
    from IPython.core.magic import no_var_expand
    from IPython.display import display

    def hlo(line: str, cell: str | None = None) -> None:
        hlo_magic(line, cell, shell.user_ns, display)

    hlo.__doc__ = USAGE
    shell.register_magic_function(no_var_expand(hlo), "line_cell", "hlo")


def hlo_magic(
    line: str, cell: str | None, variables: dict[str, Any], display: Callable[[object], object]
) -> None:
    """Run `%hlo line`, or `%%hlo line` above the text `cell`.

    Args:
        line: options, and for `%hlo` the module.
        cell: None for `%hlo`.
        variables: those of the notebook; `--name` adds one.
        display: shows an object.

    Raises:
        MagicError: any error, as text with its place and advice.
    """
    told = io.StringIO()

    def work() -> int:
        options = read_options(line, is_cell=cell is not None)
        module = module_named(options.source, variables) if cell is None else module_of_cell(cell)
        after = module.apply(options.passes) if options.passes else module
        if options.name:
            variables[options.name] = after
        for view in views_of(options, module, after):
            show = print if type(view) is str else display
            show(view)
        return Exit.OK

    if guarded(Talk(color="never", err=told), work) != Exit.OK:
        raise MagicError(told.getvalue().rstrip("\n"))
