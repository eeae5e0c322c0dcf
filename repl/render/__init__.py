"""Renders the session's data with rich; colour is never the only signal.

Module text is always wrapped in `Text`, so that nothing in it is interpreted as markup or as a
terminal escape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.text import Text

from hloc.analysis.diff.module_lines import Line
from hloc.analysis.diff.provenance import Origin
from hloc.errors import HloError, printable_lines
from hloc.report.text import plural
from repl.commands.examples import EXAMPLES
from repl.commands.row import Help
from repl.diff import TextDiff
from repl.history import HistoryEntry
from repl.render import kernel as render_kernel
from repl.render import session as render_session
from repl.render.diff import render_diff, render_json
from repl.render.styled import styled
from repl.results import Effects, HistoryTree, Info, Listing, ModuleText, Moved, Report
from repl.state_diff import DiffJson, ShownDiff

_TOP_RULES = 4


def render(result: object, width: int = 100) -> Iterator[Text]:
    """Yield the lines that show `result`, a value that a command returned.

    Args:
        result: what to show.
        width: columns of the terminal, into which side-by-side output is fitted.
    """
    if isinstance(result, tuple):
        yield from _history(result, width)
    elif isinstance(result, ShownDiff):
        yield from render_diff(result, width)
    else:
        yield from RENDERERS[type(result)](result)


def rendered_text(result: object) -> str:
    """Return the lines that show `result`, without styles."""
    return "\n".join(line.plain for line in render(result))


def render_error(error: HloError) -> Iterator[Text]:
    """Yield the lines of all diagnostics."""
    for diagnostic in error.diagnostics:
        head, mark, rest = diagnostic.render().partition("error")
        yield Text.assemble(printable_lines(head), (mark, "bold red"), printable_lines(rest))


def _module_text(result: ModuleText | Report) -> Iterator[Text]:
    yield styled(result.text.rstrip("\n"))


def _moved(result: Moved) -> Iterator[Text]:
    module = result.state.module
    counts = (
        f"{plural(module.instruction_count, 'instruction')}, "
        f"{plural(len(module.computations), 'computation')}"
    )
    if result.how != "load":
        yield styled(f"{result.state.label} {result.state.how}: {counts}")
        return
    parameters = " ".join(p.shape.text_without_layout for p in module.entry.parameters) or "()"
    if len(parameters) > 100:
        parameters = plural(len(module.entry.parameters), "parameter")
    result_shape = module.entry.root.shape.text_without_layout
    shown = result_shape if len(result_shape) <= 100 else "a tuple"
    yield styled(f"{module.name}: {counts}, {parameters} -> {shown}")


def _listing(result: Listing) -> Iterator[Text]:
    for name, lines in result.groups:
        yield styled(name, "bold")
        for line in lines:
            yield _line(line)


def _line(line: Line, indent: str = "  ") -> Text:
    return styled(indent + line.text())


def _info(result: Info) -> Iterator[Text]:
    yield styled(result.line.text(), "bold")
    yield styled(f"  in {result.computation}, shape {result.shape}")
    for title, lines in (("operands", result.operands), ("users", result.users)):
        yield styled(f"  {title}: {'' if lines else 'none'}".rstrip())
        for line in lines[:20]:
            yield _line(line, "    ")
        if len(lines) > 20:
            yield styled(f"    ... {len(lines) - 20} more")


def _effects(result: Effects) -> Iterator[Text]:
    width = max(len(effect.name) for effect in result.effects) + 2
    for effect in result.effects:
        name = f"  {effect.name:{width}s}"
        if effect.rewrites is None:
            yield Text.assemble((name, "bold"), printable_lines(effect.summary))
        elif effect.failure:
            yield Text.assemble((name, "red"), f"cannot run: {printable_lines(effect.failure)}")
        else:
            count = plural(effect.rewrites, "rewrite") if effect.rewrites else "nothing to do"
            rules = ", ".join(f"{rule} ×{number}" for rule, number in effect.rules[:_TOP_RULES])
            more = ", ..." if len(effect.rules) > _TOP_RULES else ""
            style = "bold" if effect.rewrites else "dim"
            yield Text.assemble(
                (name, style), f"{count:14s}{printable_lines(rules)}{more}".rstrip()
            )


def _text_diff(result: TextDiff) -> Iterator[Text]:
    if not result.lines:
        yield styled("no difference")
    for line in result.lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        yield styled(line, style)


def _history(entries: tuple[HistoryEntry, ...], width: int) -> Iterator[Text]:
    """Yield a line of states with their sizes below; the tree if it branches or is too long."""
    cells = [_history_cell(entry) for entry in entries]
    length = sum(len(cell) + len(_ARROW) for cell in cells)
    if not entries or any(entry.depth for entry in entries) or length > width:
        yield from _history_tree(HistoryTree(entries))
        return
    line, below = Text("  "), "  "
    for number, (entry, cell) in enumerate(zip(entries, cells, strict=True)):
        if number:
            line.append(_ARROW, style="dim")
            below += " " * len(_ARROW)
        line.append(cell, style="bold" if entry.is_current else "")
        below += f"{f'{entry.state.instructions:,}':^{len(cell)}s}"
    yield line
    yield Text(below.rstrip(), style="dim")


_ARROW = " ── "


def _history_cell(entry: HistoryEntry) -> str:
    mark = "● " if entry.is_current else ""
    names = f" ({', '.join(entry.names)})" if entry.names else ""
    wrong = "" if entry.state.is_valid else "✗"
    return printable_lines(f"{mark}{entry.state.label}{wrong} {entry.state.how}{names}")


def _history_tree(result: HistoryTree) -> Iterator[Text]:
    for entry in result.entries:
        state = entry.state
        mark = "●" if entry.is_current else "○"
        parent = f" from {state.parent.label}" if state.parent and entry.depth else ""
        names = f" ({', '.join(entry.names)})" if entry.names else ""
        wrong = "" if state.is_valid else "✗"
        yield Text.assemble(
            "  " + "│ " * entry.depth,
            (f"{mark} {state.label}{wrong}", "bold" if entry.is_current else ""),
            f" {printable_lines(state.how + names)}{parent}   {state.instructions:,} instructions",
        )


def _origin(result: Origin) -> Iterator[Text]:
    yield styled(result.line, "bold")
    if not result.is_live:
        yield styled("  no longer in the current state")
    if result.text_line or result.source:
        parts = [f"line {result.text_line} of the text"] if result.text_line else []
        parts += [f"from {result.source}"] if result.source else []
        yield styled("  s0: " + ", ".join(parts))
    for cause in result.causes:
        yield Text.assemble(
            f"  {cause.state}: {printable_lines(cause.text)}", (f"   ← {cause.by}", "dim")
        )
    if not result.causes:
        yield styled("  no pass has touched it")


def _help(result: Help) -> Iterator[Text]:
    """Yield the list of commands by group, or one command with an example."""
    if len(result.commands) == 1:
        (command,) = result.commands
        yield styled(command.usage, "bold")
        yield styled(f"  {command.summary}")
        yield styled(f"  for example: {EXAMPLES[command.name]}")
        return
    group = ""
    for command in result.commands:
        if command.group != group:
            group = command.group
            yield styled(group, "bold underline")
        if len(command.usage) > 30:
            yield styled(f"  {command.usage}", "bold")
            yield styled(" " * 33 + command.summary)
        else:
            yield Text.assemble((f"  {command.usage:31s}", "bold"), command.summary)
    yield styled("  States are s0, s1 ..., prev (the previous one) and $ (the current one).")


RENDERERS: dict[type[Any], Callable[[Any], Iterator[Text]]] = {
    DiffJson: render_json,
    Effects: _effects,
    Help: _help,
    HistoryTree: _history_tree,
    Info: _info,
    Listing: _listing,
    ModuleText: _module_text,
    Report: _module_text,
    Moved: _moved,
    Origin: _origin,
    TextDiff: _text_diff,
    **render_kernel.RENDERERS,
    **render_session.RENDERERS,
}
