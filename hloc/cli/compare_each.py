"""`--compare-each`: each instruction alone, as machine code and in the reference evaluator.

Both take the operands that the evaluator has computed, so that an instruction is not blamed for
the error of an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc import driver
from hloc.cli.isolation.pieces import NO_CODE, pieces_of, takes_arrays
from hloc.cli.talk import Talk
from hloc.dtypes import Array
from hloc.errors import HloError, printable
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.report.answers import is_random, is_too_large
from hloc.report.compare import Bounds, Comparison, compare
from hloc.report.exits import Exit
from hloc.report.inputs import arrays_of_parameters
from hloc.report.run_data import comparison_data
from hloc.report.run_report import comparison_text
from hloc.report.source_input import need_one_device
from hloc.report.text import plural

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Piece:
    """The outcome for one instruction: a comparison, or the reason why there is none."""

    inst: Instruction
    found: Comparison | None
    fault: str = ""

    @property
    def differs(self) -> bool:
        return self.found is not None and not self.found.ok


def compare_each(module: Module, inputs: Sequence[Array], bounds: Bounds, talk: Talk) -> int:
    """Compare the instructions of the entry computation of `module`, which is not changed.

    Returns:
        0 if all agree, 1 if one differs.

    Raises:
        HloError: the evaluator would take too long, or cannot run the module.
    """
    if is_too_large(module):
        raise HloError("--compare-each: the module is too large for the evaluator")
    need_one_device(module, "--compare-each")
    pieces = list(_pieces(module, inputs, bounds))
    differs = any(piece.differs for piece in pieces)
    talk.report("compare_each", _report(pieces), _data(pieces), is_failure=differs)
    return Exit.FAULT if differs else Exit.OK


def _data(pieces: Sequence[_Piece]) -> list[dict[str, object]]:
    """Return each instruction as JSON data, in order."""
    return [
        {
            "name": piece.inst.name,
            "opcode": piece.inst.opcode.name,
            "comparison": None if piece.found is None else comparison_data(piece.found),
            "fault": piece.fault,
        }
        for piece in pieces
    ]


def _pieces(module: Module, inputs: Sequence[Array], bounds: Bounds) -> list[_Piece]:
    values = arrays_of_parameters(module, inputs)
    pieces: list[_Piece] = []
    for inst in post_order(module.entry):
        if inst in values:
            continue
        (piece,) = pieces_of(inst, 0)
        arrays = [array for operand in piece.operands for array in values[operand]]
        values[inst] = list(driver.evaluate(piece.module, *arrays, fill_constants="zeros"))
        if not inst.is_a(*NO_CODE):
            pieces.append(_compared(inst, piece.module, arrays, values[inst], bounds))
    return pieces


def _compared(
    inst: Instruction, alone: Module, arrays: list[Array], want: list[Array], bounds: Bounds
) -> _Piece:
    if is_random(alone):
        return _Piece(inst, None, "it draws random numbers")
    if not takes_arrays(inst):
        return _Piece(inst, None, "it has no arrays")
    try:
        got = list(driver.compile_as_it_stands(alone)(*arrays))
    except HloError as fault:
        return _Piece(inst, None, fault.message)
    return _Piece(inst, compare(got, want, bounds))


def _report(pieces: Sequence[_Piece]) -> list[str]:
    """Return lines for the first instruction that differs, then the names of the others."""
    compared = [(piece, piece.found) for piece in pieces if piece.found is not None]
    left = [piece for piece in pieces if piece.found is None]
    bad = [(piece, found) for piece, found in compared if not found.ok]
    lines: list[str] = []
    if bad:
        piece, found = bad[0]
        place = [p for p, _ in compared].index(piece) + 1
        lines.append(
            f"compare-each: FAILED at {_name(piece)}, {place} of {len(compared)} in order: "
            f"{comparison_text(found)}"
        )
        lines.append(f"  {printable(repr(piece.inst))}")
        if len(bad) > 1:
            others = [_name(piece) for piece, _ in bad[1:]]
            more = others[:_MOST_NAMED] + ["..."] * (len(others) > _MOST_NAMED)
            lines.append(f"  {len(others)} more differ: {', '.join(more)}")
    elif compared:
        piece, found = max(compared, key=lambda row: row[1].max_ulp)
        worst = f", max {found.max_ulp:,} ulp at {_name(piece)}" if found.max_ulp else ""
        lines.append(
            f"compare-each: {plural(len(compared), 'instruction')} as machine code agree with the "
            f"evaluator{worst}"
        )
    else:
        lines.append("compare-each: no instruction makes code")
    lines += [f"  not compared: {_name(piece)}, {printable(piece.fault)}" for piece in left]
    return lines


def _name(piece: _Piece) -> str:
    return f"%{printable(piece.inst.name)}"
