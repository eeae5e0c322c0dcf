"""Renders a stepped kernel: PTX with the next line marked, lanes, registers, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.text import Text

from hloc.errors import printable
from repl.kernels.view import KernelView


def _kernel(result: KernelView) -> Iterator[Text]:
    """Yield the place in the kernel, what the last instruction wrote, and how it ended."""
    for number, text in enumerate(result.head):
        yield Text(f"{'  ' if number else ''}{printable(text)}", style="" if number else "bold")
    yield Text(f"  {result.place}", style="dim")
    for number, text in result.lines:
        is_next = number == result.current
        line = f"  {'>' if is_next else ' '} {number:4d}  {printable(text)}"
        yield Text(line.rstrip(), style="bold" if is_next else "")
    if result.lanes:
        yield Text(f"  lanes    {result.lanes}")
    for change in result.changes:
        before = f"  (was {change.before})" if change.before else ""
        yield Text.assemble(
            "  wrote    ", (f"{printable(change.register)} = {change.value}", "yellow"), before
        )
    for line in result.touched:
        yield Text(f"  touched  {line}")
    if result.end:
        yield Text(f"  {printable(result.end)}", style="bold")


RENDERERS: dict[type[Any], Callable[[Any], Iterator[Text]]] = {KernelView: _kernel}
