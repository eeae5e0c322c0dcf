"""One instruction: its opcode row, attributes, operands, called computations and shape."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

from hloc.dtypes import DTYPES
from hloc.errors import Diagnostic, HloError
from hloc.ir.async_chain import async_start_of
from hloc.ir.attribute_fields import attribute_fields
from hloc.ir.attributes import NO_COMMON, CommonAttributes, Metadata
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.names import KEYWORDS
from hloc.ir.opcode import Opcode, ShapeRequest
from hloc.ops import OPCODES
from hloc.parser.ast import AttributeAst, InstructionAst, Piece
from hloc.parser.async_sugar import (
    AsyncSugar,
    async_sugar,
    bind_late,
    check_async,
    set_thread,
    share_common,
    wrapped_shape,
)
from hloc.parser.attributes import InstructionAttributes
from hloc.parser.called_to_ir import CalledReader
from hloc.parser.literals import parse_literal
from hloc.parser.operands_to_ir import OperandReader
from hloc.parser.reader import Scope, Unknown, legal_name
from hloc.parser.scanner import strip_comments
from hloc.parser.special_cases import (
    SPECIAL_CASES,
    adjust_attributes,
    adjust_shape,
    check_attributes,
    check_operand_count,
    drop_extra_operands,
)
from hloc.shapes import ArrayShape, Shape, TupleShape, leaves
from hloc.source import SourceFile, Span

_PARAMETER_NUMBER = re.compile(r"[0-9]{1,9}|-0++")


class Form(NamedTuple):
    """The common part of instructions whose opcode, shape text and attributes are equal.

    Attributes:
        written: the shape in the text; `shape` is that of the instruction.
        record: the row's attributes; None if they are in the parentheses.
        texts: keeps the attribute list alive, whose identity is part of the key.
    """

    row: Opcode
    written: Shape
    shape: Shape
    attributes: InstructionAttributes
    record: Any
    texts: tuple[AttributeAst, ...]


class InstructionReader(OperandReader, CalledReader):
    """Builds the instructions of one source."""

    def __init__(
        self, source: SourceFile, diagnostics: list[Diagnostic], fast: bool = True
    ) -> None:
        super().__init__(source, diagnostics, fast)
        self._forms: dict[tuple[str, str | None, int], Form] = {}

    def _instruction(self, tree: InstructionAst, scope: Scope) -> None:
        """Read one instruction into `scope`; a faulty one is recorded as unknown under its name."""
        name = tree.name.removeprefix("%") or "_"
        inst: Instruction | None = None
        try:
            self._check_name(tree, name, scope)
            self._seen_names.append(name)
            inst = self._build(tree, name, scope)
        except HloError as error:
            self.diagnostics.extend(error.diagnostics)
        except Unknown:
            pass
        if inst is None:
            scope.complete = False
            if name not in scope.named:
                scope.define(name, tree.at, None)
        else:
            scope.define(name, tree.at, inst)
        if tree.is_root:
            if scope.roots:
                self._report(tree.at, len(tree.name), "a computation has only one ROOT", "HLOC0110")
            scope.roots.append(inst)

    def _check_name(self, tree: InstructionAst, name: str, scope: Scope) -> None:
        if name in scope.named:
            raise self._fault(
                tree.at, len(tree.name), f"instruction already exists: {name}", "HLOC0106",
                f"instruction previously defined at {self._place(scope.place_of(name))}",
            )  # fmt: skip
        if name in KEYWORDS and not tree.name.startswith("%"):
            raise self._fault(
                tree.at, len(name), f"{name} is a keyword, not a name; write %{name}", "HLOC0109"
            )
        if name in DTYPES or (name.startswith("__") and not name.startswith("__xla_")):
            raise self._fault(
                tree.at, len(tree.name), f"illegal instruction name: {name}", "HLOC0109",
                f"suggestion: {legal_name(name)}",
            )  # fmt: skip

    def _build(self, tree: InstructionAst, name: str, scope: Scope) -> Instruction:
        form = self._forms.get((tree.opcode, tree.shape, id(tree.attributes)))
        if form is not None:
            return self._another(form, tree, name, scope)
        return self._first(tree, name, scope)

    def _another(self, form: Form, tree: InstructionAst, name: str, scope: Scope) -> Instruction:
        """Add an instruction of a known `form`: nine of ten in a large module, at half the cost."""
        row, written, shape, attributes, record, _ = form
        span = Span(self.source, tree.at, tree.opcode_at + len(tree.opcode))
        operands: tuple[Instruction, ...] = ()
        if row.parenthesis:
            record = self._parenthesis(row, tree.operands, tree.operands_at, written)
        else:
            operands = self._operands(tree.operands, tree.operands_at, scope)
            if len(operands) != row.arity:
                check_operand_count(row, operands, (), span)
                operands = drop_extra_operands(row, operands)
        common = attributes.common
        if tree.metadata is not None or common is not NO_COMMON:
            common = self._common(tree, attributes, shape, span)
        return self._add(scope, name, row, shape, operands, record, (), common, (), span)

    def _remember(
        self, tree: InstructionAst, row: Opcode, shape: Shape, attributes: InstructionAttributes
    ) -> None:
        """Store the form of an instruction, if others of the form differ in operands only."""
        special = row.calls or row.name in SPECIAL_CASES or row.name.startswith("async-")
        if tree.shape is None or attributes.control or (special and not row.parenthesis):
            return
        record = self._records.get((row.name, id(attributes)))
        if record is None and row.attributes is not None and not row.parenthesis:
            return  # the operands determine an attribute that the text omits
        written = self.values.shape(tree.shape, tree.shape_at)
        form = Form(row, written, shape, attributes, record, tree.attributes)
        self._forms[tree.opcode, tree.shape, id(tree.attributes)] = form

    def _first(self, tree: InstructionAst, name: str, scope: Scope) -> Instruction:
        """Build an instruction of a form that was not seen before; remember the form.

        Row, attributes, operands, called computations, shape; then what only some opcodes have.
        """
        row = OPCODES.get(tree.opcode)
        if row is None:
            sugar = async_sugar(tree.opcode)
            if sugar is None:
                raise self._unknown_opcode(tree)
            if sugar.row.name == "async-start":
                return self._async_start(tree, name, scope, sugar)
            row, wrapped = sugar.row, sugar.wrapped
        else:
            wrapped = None
        span = Span(self.source, tree.at, tree.opcode_at + len(tree.opcode))
        attributes = self.attributes.read(row, tree.attributes, tree.attributes_at)
        shape = None if tree.shape is None else self.values.shape(tree.shape, tree.shape_at)
        if row.parenthesis:
            operands: tuple[Instruction, ...] = ()
            if shape is None:
                raise self._no_shape(row, span)
            record = self._parenthesis(row, tree.operands, tree.operands_at, shape)
        else:
            operands = self._operands(tree.operands, tree.operands_at, scope)
            record = self._record(row, attributes, operands, tree)
            if row.name == "convolution" and record.sparsity_config:
                operands, record = self._places_apart(operands, record, span, scope)
        called: tuple[Computation, ...] = ()
        if row.calls:
            called = self._called(row, attributes, operands, tree, span)
        if len(operands) != row.arity:  # also if the number varies
            check_operand_count(row, operands, called, span)
            operands = drop_extra_operands(row, operands)
        if row.name.startswith("async-"):
            check_async(row, wrapped, operands, called, shape, record, span, scope.computation)
            self._check_chain_names(tree, operands)
        if shape is None:
            shape = self._inferred(row, operands, record, called, span)
        if row.name in SPECIAL_CASES:
            record = adjust_attributes(row, record, operands)
            check_attributes(row, record, operands, span)
            shape = adjust_shape(row, shape, operands, span)
        common = self._common(tree, attributes, shape, span)
        if row.name == "async-start" and common is not NO_COMMON:
            share_common(called[0], common)
        control = self._control(attributes, tree, scope) if attributes.control else ()
        if wrapped is None and not getattr(record, "sparsity_config", None):
            self._remember(tree, row, shape, attributes)
        inst = self._add(scope, name, row, shape, operands, record, called, common, control, span)
        if wrapped is not None:
            bind_late(inst)
        return inst

    def _async_start(
        self, tree: InstructionAst, name: str, scope: Scope, sugar: AsyncSugar
    ) -> Instruction:
        """Build `X-start`: X goes into a computation of its own, which an async-start calls."""
        row, wrapped = sugar.row, sugar.wrapped
        span = Span(self.source, tree.at, tree.opcode_at + len(tree.opcode))
        of_start = ("async_execution_thread", "output_to_operand_aliasing")
        own = tuple(a for a in tree.attributes if a.key in of_start)
        inner = tuple(a for a in tree.attributes if a.key not in of_start)
        attributes = self.attributes.read(row, own, tree.attributes_at)
        inner_attributes = self.attributes.read(wrapped, inner, tree.attributes_at)
        shape = None if tree.shape is None else self.values.shape(tree.shape, tree.shape_at)
        inner_shape = wrapped_shape(shape, row, span)
        assert shape is not None
        operands = self._operands(tree.operands, tree.operands_at, scope)
        record = self._record(row, attributes, operands, tree)
        body = Scope(self._new_computation("async_wrapped", record.async_execution_thread))
        parameter = OPCODES["parameter"]
        assert parameter.attributes is not None
        parameters = tuple(
            self._add(
                body, "async_param", parameter, operand.shape, (),
                parameter.attributes(number=number), (), NO_COMMON, (), None,
            )
            for number, operand in enumerate(operands)
        )  # fmt: skip
        inner_called = self._called(wrapped, inner_attributes, operands, tree, span)
        is_late = len(operands) < (wrapped.arity or 0) or inner_shape == TupleShape(())
        if not is_late:  # else updates add the others, and the verifier counts them
            check_operand_count(wrapped, operands, inner_called, span)
        common = self._common(tree, inner_attributes, shape, span)
        root = self._add(
            body, wrapped.name, wrapped, inner_shape, parameters,
            self._record(wrapped, inner_attributes, operands, tree), inner_called,
            replace(common, sharding=None), (), span,
        )  # fmt: skip
        body.roots.append(root)
        computation = self._finish(body, None)
        assert computation is not None
        set_thread(computation, record.async_execution_thread)
        control = self._control(inner_attributes, tree, scope)
        return self._add(
            scope, name, row, shape, operands, record, (computation,), common, control, span
        )

    def _check_chain_names(self, tree: InstructionAst, operands: tuple[Instruction, ...]) -> None:
        """Compare the redundant `calls=` of an update or done with that of the start."""
        start = async_start_of(operands[0]) if operands else None
        for attribute in tree.attributes:
            if attribute.key == "async_execution_thread" and start is not None:
                thread = start.attributes.async_execution_thread
                if attribute.value[1:-1] != thread:
                    raise self._fault(
                        tree.attributes_at + attribute.value_at, len(attribute.value),
                        f"the async-start runs on thread {thread}, not {attribute.value}",
                        "HLOC0205",
                    )  # fmt: skip
            if attribute.key != "calls" or start is None or attribute.value.startswith("{"):
                continue
            named = self._computations.get(attribute.value.removeprefix("%"))
            if named is not start.called[0]:
                at = tree.attributes_at + attribute.value_at
                raise self._fault(
                    at, len(attribute.value),
                    f"{tree.opcode} calls {start.called[0].name}, as its async-start does, not "
                    f"{attribute.value}", "HLOC0205",
                )  # fmt: skip

    def _unknown_opcode(self, tree: InstructionAst) -> HloError:
        hint = self._hint(tree.opcode, OPCODES)
        return self._fault(
            tree.opcode_at, len(tree.opcode), f"unknown opcode: {tree.opcode}{hint}", "HLOC0104"
        )

    def _parenthesis(self, row: Opcode, text: str, at: int, shape: Shape) -> Any:
        key = (row.name, text, id(shape))  # shapes of equal text are one object
        record = self._parentheses.get(key)
        if record is None:
            record = self._read_parenthesis(row, Piece(text, at), shape)
            if len(text) < 100:
                self._parentheses[key] = record
        return record

    def _read_parenthesis(self, row: Opcode, piece: Piece, shape: Shape) -> Any:
        assert row.attributes is not None
        if row.parenthesis == "literal":
            literal = parse_literal(self.source, piece.text, piece.at, shape, self.fast)
            return row.attributes(literal=literal)
        text = strip_comments(piece.text).strip(" \t\r\n")
        if not _PARAMETER_NUMBER.fullmatch(text):
            raise self._fault(
                piece.at, len(piece.text), f"expected a parameter number but found '{text[:40]}'",
                "HLOC0212",
            )  # fmt: skip
        return row.attributes(**{row.parenthesis: int(text)})

    def _record(
        self, row: Opcode, attributes: InstructionAttributes, operands: tuple[Instruction, ...],
        tree: InstructionAst,
    ) -> Any:  # fmt: skip
        """Return the row's attributes record; HloError if a required attribute is missing."""
        if row.attributes is None:
            return None
        key = (row.name, id(attributes))  # equal attribute lists give one object, which stays alive
        known = self._records.get(key)
        if known is not None:
            return known
        values = attributes.values
        for f in attribute_fields(row.attributes):
            if f.required and f.field not in values:
                implied = self._implied(row, f.name, operands)
                if implied is None:
                    raise self._fault(
                        tree.opcode_at, len(tree.opcode),
                        f"{row.name}: attribute {f.name} is expected but not seen", "HLOC0204",
                    )  # fmt: skip
                return row.attributes(**{**values, f.field: implied})
        record = row.attributes(**values)
        if row.calls:
            # One object for equal records, even if they call other computations, so that
            # the verifier recognises instructions that it has checked before.
            record = self._equal_records.setdefault((row.name, record), record)
        self._records[key] = record
        return record

    @staticmethod
    def _implied(row: Opcode, name: str, operands: tuple[Instruction, ...]) -> Any:
        """Return the default of a missing attribute that XLA does not require, else None."""
        shape = operands[0].shape if operands else None
        if name == "dimensions" and isinstance(shape, ArrayShape):
            if row.name == "broadcast" and shape.rank == 0:
                return ()
            if row.name == "map":
                return tuple(range(shape.rank))
        return None

    def _inferred(
        self, row: Opcode, operands: tuple[Instruction, ...], record: Any,
        called: tuple[Computation, ...], span: Span,
    ) -> Shape:  # fmt: skip
        if row.shape_required:
            raise self._no_shape(row, span)
        try:
            return row.infer(ShapeRequest(tuple(o.shape for o in operands), record, called))
        except HloError as error:
            first = error.diagnostics[0]
            raise HloError(first.message, first.span or span, first.notes, "HLOC0210") from None

    def _no_shape(self, row: Opcode, span: Span) -> HloError:
        return HloError(
            f"the shape of {row.name} cannot be inferred; write it before the opcode",
            span,
            (),
            "HLOC0209",
        )

    def _common(
        self, tree: InstructionAst, attributes: InstructionAttributes, shape: Shape, span: Span
    ) -> CommonAttributes:
        """Return the common attributes with metadata, one object for equal metadata.

        A sharding without tiles for each leaf is repeated for all leaves of a tuple.
        """
        common = attributes.common
        if tree.metadata is not None:
            text, at = tree.metadata
            plain = self._plain_common.get(text) if common is NO_COMMON else None
            if plain is not None:
                return plain
            metadata: Metadata = self.values.read("metadata", text, at)
            if common is NO_COMMON:
                plain = self._plain_common[text] = CommonAttributes(metadata=metadata)
                return plain
            common = common.with_metadata(metadata)
        if common is NO_COMMON:
            return common
        if common.sharding is not None and isinstance(shape, TupleShape):
            common = replace(
                common, sharding=common.sharding.for_leaves(sum(1 for _ in leaves(shape)))
            )
        if common.parameter_replication:
            self._check_replication(tree, common.parameter_replication, shape, span)
        return common

    def _check_replication(
        self, tree: InstructionAst, flags: tuple[bool, ...], shape: Shape, span: Span
    ) -> None:
        if tree.opcode != "parameter":
            raise HloError("only a parameter has parameter_replication", span, (), "HLOC0202")
        count = sum(1 for _ in leaves(shape))
        if len(flags) != count:
            raise HloError(
                f"parameter_replication has {len(flags)} entries, but the shape has {count} leaves",
                span, (), "HLOC0205",
            )  # fmt: skip
