"""Operands: names, names with shapes, nested instructions, new parameters; control predecessors."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hloc.errors import HloError
from hloc.ir.attributes import NO_COMMON
from hloc.ir.instruction import Instruction
from hloc.ops import OPCODES
from hloc.ops.block_sparsity import SIDES, sparsities, with_places
from hloc.parser.ast import (
    InstructionAst,
    NamedOperand,
    NestedOperand,
    OperandAst,
    Piece,
    ShapeOperand,
)
from hloc.parser.attributes import InstructionAttributes
from hloc.parser.reader import Scope, SourceReader, Unknown
from hloc.parser.scanner import NAME
from hloc.parser.to_ast import parse_piece
from hloc.shapes import TupleShape, compatible
from hloc.source import Span


class OperandReader(SourceReader):
    """Finds or makes the operands of instructions."""

    def _operands(self, text: str, at: int, scope: Scope) -> tuple[Instruction, ...]:
        if not text:
            return ()
        named = scope.named
        names = text[1:].split(", %") if text[0] == "%" else text.split(", ")
        try:
            found = tuple([named[name] for name in names]) if self.fast else (named[""],)
        except KeyError:
            return tuple(self._operand(tree, scope) for tree in self._operand_trees(text, at))
        if None in found:
            raise Unknown
        return found  # type: ignore[return-value]

    def _operand_trees(self, text: str, at: int) -> list[OperandAst]:
        """Split an operand list: by pattern if it has only names and arrays, else by grammar."""
        trees = _typed_names(text, at) if self.fast else None
        if trees is not None:
            return trees
        found: list[OperandAst] = parse_piece(
            self.source, Piece(text, at), "operands", "operands", self.fast
        )
        return found

    def _operand(self, tree: OperandAst, scope: Scope) -> Instruction:
        """Return the instruction of one operand; if its shape is written, it must be the same.

        Raises:
            Unknown: the instruction has faults of its own, which are reported already.
        """
        if isinstance(tree, NestedOperand):
            return self._nested(tree, scope)
        if isinstance(tree, ShapeOperand):
            return self._new_parameter(f"_{len(scope.order)}", tree.shape, scope)
        name = tree.name.removeprefix("%")
        inst = scope.named.get(name)
        if inst is None:
            if name in scope.named:
                raise Unknown
            if scope.makes_parameters and tree.shape is not None:
                return self._new_parameter(name, tree.shape, scope)
            raise self._no_instruction(tree, name, scope)
        if tree.path:
            inst = self._element(inst, tree, scope)
        if tree.shape is not None:
            shape = self.values.shape(tree.shape.text, tree.shape.at)
            if not compatible(shape, inst.shape):
                raise self._fault(
                    tree.shape.at, len(tree.shape.text),
                    f"operand {_element_name(name, tree.path)} is written with shape "
                    f"{shape.text_without_layout}, but it has shape "
                    f"{inst.shape.text_without_layout}", "HLOC0207",
                )  # fmt: skip
        return inst

    def _places_apart(
        self, operands: tuple[Instruction, ...], record: Any, span: Span, scope: Scope
    ) -> tuple[tuple[Instruction, ...], Any]:
        """Split sparse operands of a convolution that are tuples, as before August 2026."""
        parts = list(operands)
        for number, side in enumerate(SIDES[: len(operands)]):
            sparsity = sparsities(record.sparsity_config).get(side)
            shape = operands[number].shape
            if sparsity is None or sparsity.places or not isinstance(shape, TupleShape):
                continue
            if len(shape.elements) == 2:
                tree = NamedOperand(operands[number].name, span.start, None)
                parts[number], places = (
                    self._element(operands[number], tree._replace(path=(index,)), scope)
                    for index in (0, 1)
                )
                config = with_places(record.sparsity_config, side, len(parts))
                record = replace(record, sparsity_config=config)
                parts.append(places)
        return tuple(parts), record

    def _element(self, inst: Instruction, tree: NamedOperand, scope: Scope) -> Instruction:
        """Return `tree.path` of the tuple `inst`: each get-tuple-element is made at its first use.

        They are in the scope as `p#1`, which no name can be, so the fast reader finds them too.
        """
        row = OPCODES["get-tuple-element"]
        assert row.attributes is not None
        name = tree.name.removeprefix("%")
        for depth, index in enumerate(tree.path, 1):
            elements = inst.shape.elements if isinstance(inst.shape, TupleShape) else None
            if elements is None or not 0 <= index < len(elements):
                written = _element_name(name, tree.path[: depth - 1])
                reason = "is not a tuple" if elements is None else f"has no element {index}"
                raise self._fault(
                    tree.at, len(tree.name), f"{written} {reason}; its shape is "
                    f"{inst.shape.text_without_layout}", "HLOC0206",
                )  # fmt: skip
            written = _element_name(name, tree.path[:depth])
            known = scope.named.get(written)
            if known is None:
                known = self._add(
                    scope, written.replace("#", "_"), row, elements[index], (inst,),
                    row.attributes(index=index), (), NO_COMMON, (),
                    Span(self.source, tree.at, tree.at + len(tree.name)),
                )  # fmt: skip
                scope.define(written, tree.at, known)
            inst = known
        return inst

    def _no_instruction(self, tree: NamedOperand, name: str, scope: Scope) -> HloError:
        hint = self._hint(name, scope.named)
        notes = ["a single instruction's operands need shapes"] if scope.makes_parameters else []
        return self._fault(
            tree.at, len(tree.name), f"instruction does not exist: {name}{hint}", "HLOC0105", *notes
        )

    def _new_parameter(self, name: str, shape: Piece, scope: Scope) -> Instruction:
        number = sum(inst.opcode.name == "parameter" for inst in scope.order)
        row = OPCODES["parameter"]
        assert row.attributes is not None
        if name.startswith("_") and name[1:].isdigit():
            name = f"_{number}"
        inst = self._add(
            scope, name, row, self.values.shape(shape.text, shape.at), (),
            row.attributes(number=number), (), NO_COMMON, (),
            Span(self.source, shape.at, shape.end),
        )  # fmt: skip
        scope.define(name, shape.at, inst)
        return inst

    def _nested(self, tree: NestedOperand, scope: Scope) -> Instruction:
        if scope.makes_parameters and tree.opcode == "parameter":
            raise self._fault(
                tree.at, len(tree.opcode), "a parameter cannot be nested here", "HLOC0101"
            )
        shape = tree.shape
        at = tree.at
        inst = InstructionAst(
            tree.opcode, at, False, shape.text if shape else None, shape.at if shape else at,
            tree.opcode, at, tree.operands.text, tree.operands.at, (), 0, None,
        )  # fmt: skip
        built = self._build(inst, tree.opcode, scope)
        built.name = self._anonymous(tree.opcode)  # after those of its own operands
        scope.define(built.name, at, built)
        return built

    def _anonymous(self, opcode: str) -> str:
        for name in self._seen_names:
            self._nested_names.unique(name)
        self._seen_names.clear()
        return self._nested_names.unique(f"{opcode}.anon")

    def _control(
        self, attributes: InstructionAttributes, tree: InstructionAst, scope: Scope
    ) -> tuple[Instruction, ...]:
        found = []
        for piece in attributes.control:
            operand = NamedOperand(piece.text, tree.attributes_at + piece.at, None)
            found.append(self._operand(operand, scope))
        return tuple(found)


def _typed_names(text: str, at: int) -> list[OperandAst] | None:
    """Split `f32[2]{0} %a, /*index=1*/%b` by pattern; None for any other operand."""
    found: list[OperandAst] = []
    for part in _OPERAND.finditer(text):
        shape, name, path, rest = part.groups()
        if rest is not None:
            return None
        piece = Piece(shape, at + part.start(1)) if shape else None
        indices = tuple(map(int, path[1:].split("#"))) if path else ()
        found.append(NamedOperand(name, at + part.start(2), piece, indices))
    return found


def _element_name(name: str, path: tuple[int, ...]) -> str:
    return "".join([name, *(f"#{index}" for index in path)])


_OPERAND = re.compile(
    r"(?:/\*index=[0-9]++\*/[ ]?)?([a-z][a-z0-9]*+\[[0-9,<=]*+\](?:\{[^{}()]*+\})?)?+ ?"
    rf"({NAME})((?:#[0-9]{{1,9}})*+)(?:, (?=[^ \t\r\n])|\Z)|([\s\S])"
)
