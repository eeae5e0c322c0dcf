"""`hloc.show(f, *arguments)`: a JAX function as HLO, what each pass does to it, and its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from hloc import driver
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.ir.notebook import PrintedView
from hloc.jax.installed import jax_package
from hloc.jax.tracing import from_jax
from hloc.lazy_dataclass import dataclass
from hloc.notebook.sources import module_in
from hloc.pictures.diff_html import diff_html
from hloc.pictures.html_text import STYLE, module_html
from hloc.report.measure_text import effect_text
from hloc.report.module_facts import headline
from hloc.report.text import aligned, plural
from repl.applying import Applied, follow
from repl.commands.passes import pipeline_of
from repl.render import rendered_text
from repl.running import bench
from repl.session import Session
from repl.state_diff import measure
from repl.walk import Walk


@dataclass(frozen=True, slots=True)
class PassReport(PrintedView):
    """A module, the effect of each pass, and its time before and after; prints as text.

    Attributes:
        before: the given module.
        after: the module after all passes.
        passes: the passes that changed something.
        times: the measured times, or why there are none; "" if not requested.
    """

    before: Module
    after: Module
    passes: tuple[Applied, ...]
    times: str

    def __str__(self) -> str:
        rows = [(found.what, effect_of(found), found.diff.summary()) for found in self.passes]
        parts = (head_of(self.before), str(self.before), "\n".join(aligned(rows)), self.times)
        return "\n\n".join(part.rstrip("\n") for part in parts if part)


def show(
    what: Callable[..., Any] | Module | str,
    /,
    *arguments: Any,
    passes: str = "-O2",
    run: bool = True,
    **keywords: Any,
) -> PassReport:
    """Return the HLO of a JAX function, the effect of each pass, and its time.

    A notebook draws it; `print` shows it as text.

    Args:
        what: a JAX function, a module, or the text of one.
        arguments: arguments of the function: arrays, or `jax.ShapeDtypeStruct`.
        passes: a level or passes: `"-O2"`, `"algsimp,cse"`.
        run: measure its time before and after the passes, on random inputs in a child process.
        keywords: keyword arguments of the function.

    Raises:
        HloError: jax is not installed; the function calls back into Python; a pass does not exist.
    """
    module = _module_of(what, arguments, keywords)
    session = Session()
    session.load_module(module)
    try:
        outcomes = list(follow(session, Walk.of(passes, pipeline_of(passes).passes)))
        changed = tuple(o for o in outcomes if isinstance(o, Applied) and o.state is not None)
        after = session.current.module
        return PassReport(module, after, changed, _times(session) if run else "")
    finally:
        session.close()


def _module_of(what: object, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Module:
    if not callable(what):
        return module_in(what, "the argument of hloc.show")
    jax_package("hloc.show")
    return from_jax(what, *arguments, **keywords).module


def _times(session: Session) -> str:
    try:
        return rendered_text(bench(session, ()))
    except HloError as fault:
        return f"not run: {fault.message}"


def head_of(module: Module) -> str:
    """Return name, size and operations of a module."""
    return headline(module, driver.flops_of(module))


def effect_of(applied: Applied) -> str:
    """Return kernels and bytes before and after a pass that changed something."""
    assert applied.state is not None
    assert applied.state.parent is not None
    return effect_text(measure(applied.state.parent), measure(applied.state), "→")


def report_html(report: PassReport) -> str:
    """Return the report with a row per pass, which expands to its diff. All texts are escaped."""
    return "".join(_pieces(report))


def _pieces(report: PassReport) -> Iterator[str]:
    yield f'{STYLE}<div class="hloc"><b>{escape(head_of(report.before))}</b>'
    yield _opened("as given", plural(report.before.instruction_count, "instruction"),
                  module_html(report.before))  # fmt: skip
    for applied in report.passes:
        told = f"{effect_of(applied)}   {applied.diff.summary()}"
        yield _opened(applied.what, told, diff_html(applied.diff))
    yield _opened("after all passes", plural(report.after.instruction_count, "instruction"),
                  module_html(report.after))  # fmt: skip
    yield f"<pre>{escape(report.times)}</pre></div>"


def _opened(title: str, told: str, inner: str) -> str:
    words = f'<b>{escape(title)}</b> <span class="quiet">{escape(told)}</span>'
    return f"<details><summary>{words}</summary>{inner}</details>"
