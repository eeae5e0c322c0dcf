"""A module as a small HTML table, which Jupyter and marimo show for such objects."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from hloc.ir.instruction import Instruction
from hloc.ir.print_order import computation_order, instruction_order

if TYPE_CHECKING:
    from hloc.ir.module import Module

MOST_ROWS = 200

STYLE = (
    "<style>.hloc{font:13px/1.4 ui-monospace,monospace;text-align:left;overflow-x:auto}"
    ".hloc td{border:0;padding:0 .8em 0 0;text-align:left;white-space:pre}"
    ".hloc .add{color:#2a8a2a}.hloc .gone{color:#c84040}.hloc .other{color:#a07000}"
    ".hloc .quiet{opacity:.6}</style>"
)


def module_html(module: Module) -> str:
    """Return the instructions of `module` as rows: name, shape, opcode, operands.

    At most `MOST_ROWS`, the entry computation first. All texts are escaped.
    """
    rows: list[str] = []
    entry = module.entry
    others = [c for c in computation_order(module) if c is not entry]
    left = module.instruction_count
    for computation in (entry, *others):
        if len(rows) >= MOST_ROWS:
            break
        kind = "ENTRY " if computation is entry else ""
        rows.append(f'<tr><td colspan="4"><b>{kind}{escape(computation.name)}</b></td></tr>')
        for inst in instruction_order(computation)[: MOST_ROWS - len(rows)]:
            rows.append(f"<tr>{''.join(_cells(inst))}</tr>")
            left -= 1
    more = f'<tr><td class="quiet">... {left:,} more instructions</td></tr>' if left else ""
    head = f"module {escape(module.name)}: {module.instruction_count:,} instructions"
    return table(head, [*rows, more])


def table(head: str, rows: list[str]) -> str:
    """Return a table in hloc's style below a heading; both are HTML."""
    return f'{STYLE}<div class="hloc"><div>{head}</div><table>{"".join(rows)}</table></div>'


def _cells(inst: Instruction) -> Iterator[str]:
    name = f"<b>{escape(inst.name)}</b>" if inst.is_root else escape(inst.name)
    operands = ", ".join(operand.name for operand in inst.operands)
    yield f"<td>{name}</td>"
    yield f'<td class="quiet">{escape(inst.shape.text_without_layout)}</td>'
    yield f'<td class="other">{escape(inst.opcode.name)}</td>'
    yield f"<td>{escape(operands)}</td>"
