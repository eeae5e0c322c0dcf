"""Called computations: by name, or inline."""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode
from hloc.parser.ast import InstructionAst, Piece
from hloc.parser.attributes import CalledReference, InstructionAttributes
from hloc.parser.reader import Scope, SourceReader, Unknown
from hloc.parser.special_cases import check_conditional_roles
from hloc.parser.to_ast import parse_piece
from hloc.source import Span

MAX_COMPUTATION_DEPTH = 50
"""Deepest nesting of inline computations."""


class CalledReader(SourceReader):
    """Finds or reads the computations that instructions call."""

    def _called(
        self, row: Opcode, attributes: InstructionAttributes, operands: tuple[Instruction, ...],
        tree: InstructionAst, span: Span,
    ) -> tuple[Computation, ...]:  # fmt: skip
        if row.name == "conditional":
            check_conditional_roles(frozenset(attributes.called), operands, span)
        found: list[Computation] = []
        for role in row.calls:
            reference = attributes.called.get(role.name)
            if reference is not None:
                found += self._referenced(reference, tree.attributes_at)
            elif not role.optional:
                raise self._fault(
                    tree.opcode_at, len(tree.opcode),
                    f"{row.name}: attribute {role.name} is expected but not seen", "HLOC0204",
                )  # fmt: skip
        return tuple(found)

    def _referenced(self, reference: CalledReference, base: int) -> list[Computation]:
        """Return the computations that one attribute names, in order, or defines in place.

        Raises:
            Unknown: one has faults of its own, which are reported already.
        """
        found = []
        for piece in reference.pieces:
            at = base + piece.at
            if piece.text.startswith("{"):
                found.append(self._inline(Piece(piece.text, at)))
                continue
            name = piece.text.removeprefix("%")
            computation = self._computations.get(name)
            if computation is None:
                if name in self._computations:
                    raise Unknown
                hint = self._hint(name, self._computations)
                raise self._fault(
                    at, len(piece.text), f"computation does not exist: {name}{hint}", "HLOC0107"
                )
            found.append(computation)
        return found

    def _inline(self, piece: Piece) -> Computation:
        if self._depth >= MAX_COMPUTATION_DEPTH:
            raise self._fault(
                piece.at, 1, f"nested too deeply: more than {MAX_COMPUTATION_DEPTH} computations",
                "HLOC0103",
            )  # fmt: skip
        body = parse_piece(self.source, piece, "inline_computation", "body", self.fast)
        scope = Scope(self._new_computation("_"))
        self._depth += 1
        try:
            found = self._body(body, piece.at, 1, scope)
        finally:
            self._depth -= 1
        if found is None:
            raise Unknown
        return found
