"""Conversion of `HloModuleProto` to a module.

Messages are as untrusted as text: the same functions check single instructions, and `read_module`
verifies the module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloc.errors import Diagnostic, HloError
from hloc.formats.faults import BadMessage, name_of, text_of
from hloc.formats.proto_attributes import Context, codecs_of
from hloc.formats.proto_devices import sharding_text
from hloc.formats.proto_metadata import optional_metadata, payload_of
from hloc.formats.proto_raw import read_accuracy, read_origin, read_statistics
from hloc.formats.proto_shapes import shape_of
from hloc.formats.proto_values import (
    as_name,
    check_choice,
    check_index,
    constant_of,
    frontend_pairs,
    index_of,
    replication_of,
    stack_frames_of,
)
from hloc.formats.runtime import message_class
from hloc.formats.wire import check
from hloc.ir.attributes import (
    NO_COMMON,
    Alias,
    CommonAttributes,
    EntryLayout,
    ModuleConfig,
)
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import Opcode
from hloc.ops import OPCODES
from hloc.parser.async_sugar import check_async
from hloc.parser.reader import legal_name
from hloc.parser.special_cases import (
    adjust_attributes,
    adjust_shape,
    check_attributes,
    check_operand_count,
)
from hloc.parser.values import ValueReader
from hloc.shapes import Shape, TupleShape, leaves
from hloc.source import SourceFile, Span

_LOCAL_BITS = 32
"""XLA's instruction ids consist of the computation's id and, in the low bits, a local id."""


def module_from_bytes(data: bytes, name: str = "<bytes>", *, from_xla: bool = False) -> Module:
    """Return the module that a serialized `HloModuleProto` describes, not yet verified.

    Args:
        data: the message.
        name: its name in messages.
        from_xla: XLA or hloc has just written the bytes, so they are not checked for damage.

    Raises:
        HloError: the bytes are damaged or do not describe a module; protobuf is not installed.
    """
    return module_from_proto(parsed(data, "HloModuleProto", name, from_xla=from_xla), name)


def parsed(data: bytes, message: str, name: str, *, from_xla: bool = False) -> Any:
    """Return message `message`, parsed from `data`; arguments as for `module_from_bytes`.

    Raises:
        HloError: the bytes are damaged; protobuf is not installed.
    """
    found = message_class(message)
    if not from_xla:
        check(data, message, name)
    try:
        return found.FromString(data)
    except Exception as fault:  # protobuf has no public base class of its exceptions
        raise HloError(f"{name} is a damaged protocol buffer: {fault}") from None


def module_from_proto(proto: Any, name: str) -> Module:
    """Return the module that a parsed `HloModuleProto` describes, not yet verified.

    Raises:
        HloError: it does not describe a module; the error names the invalid message.
    """
    return _ModuleReader(proto, name).read()


class _ModuleReader:
    def __init__(self, proto: Any, name: str) -> None:
        self.proto = proto
        self.source = SourceFile("", name)
        self.span = Span(self.source, 0, 0)
        self.values = ValueReader(self.source)
        self.payloads = tuple(proto.payloads)
        self.module = Module(as_name(proto.name) or "module", source=self.source)
        self._computations: dict[int, Computation] = {}
        self._place = ""

    def read(self) -> Module:
        try:
            self._read()
        except BadMessage as fault:
            raise self._fault(str(fault)) from None
        except HloError as error:
            first = error.diagnostics[0]
            raise self._fault(first.message, first.notes, first.code) from None
        return self.module

    def _fault(self, message: str, notes: Sequence[str] = (), code: str = "") -> HloError:
        where = f"{self.source.name}: {self._place}: " if self._place else f"{self.source.name}: "
        return HloError([Diagnostic(where + message, None, tuple(notes), code)])

    def _read(self) -> None:
        self.module.stack_frames = stack_frames_of(self.proto.stack_frame_index)
        sequences = {
            entry.key: entry.value.instruction_ids for entry in self.proto.schedule.sequences
        }
        for number, proto in enumerate(self.proto.computations):
            self._place = f"computations[{number}]"
            if proto.id in self._computations:
                raise BadMessage(f"computation id {proto.id} is given twice")
            computation = _ComputationReader(self, proto, number).read(sequences.get(proto.id))
            self._computations[proto.id] = computation
        self._place = ""
        entry = self._computations.get(self.proto.entry_computation_id)
        if entry is None:
            raise BadMessage(f"there is no entry computation {self.proto.entry_computation_id}")
        self.module.set_entry(entry)
        self.module.config = self._config(entry)

    def called(self, ids: Sequence[int]) -> tuple[Computation, ...]:
        """Return the computations of `ids`, which come before their callers."""
        for number in ids:
            if number not in self._computations:
                raise BadMessage(f"calls computation {number}, which is not defined before it")
        return tuple(self._computations[number] for number in ids)

    def at(self, place: str) -> None:
        """Set `place` for errors."""
        self._place = place

    def grammar(self, rule: str, text: str) -> Any:
        """Parse `text` by a rule of the grammar."""
        return self.values.read(rule, text, 0)

    def _config(self, entry: Computation) -> ModuleConfig:
        """Return what the `HloModule` line of a text has, as far as the message has it."""
        proto = self.proto
        layout = None
        if proto.HasField("host_program_shape"):
            shape = proto.host_program_shape
            layout = EntryLayout(
                tuple(shape_of(parameter) for parameter in shape.parameters), shape_of(shape.result)
            )
        aliases = [
            Alias(
                index_of(alias.output_shape_index),
                alias.parameter_number,
                index_of(alias.parameter_shape_index),
                name_of("alias", alias.kind) == "must",
            )
            for alias in proto.input_output_alias.entries
        ]
        for alias in aliases:
            check_index(entry.root.shape, alias.output_index)
        return ModuleConfig(
            is_scheduled=proto.HasField("schedule"),
            aliases=tuple({alias.output_index: alias for alias in aliases}.values()),
            buffer_donors=tuple(
                (donor.parameter_number, index_of(donor.parameter_shape_index))
                for donor in proto.buffer_donor.entries
            ),
            entry_layout=layout,
            frontend_attributes=frontend_pairs(proto.frontend_attributes),
        )


class _ComputationReader:
    """Reads one computation; `owner` is the reader of the module."""

    def __init__(self, owner: _ModuleReader, proto: Any, number: int) -> None:
        self.owner = owner
        self.proto = proto
        self.number = number
        thread = text_of(proto.execution_thread) or "main"
        if not thread.isprintable() or '"' in thread or "\\" in thread:
            raise BadMessage("an execution thread cannot be called so")
        module = owner.module
        name = legal_name(as_name(proto.name)) or "computation"
        self.computation = Computation(
            module.new_uid(), module.computation_names.unique(name), module, thread
        )
        self._by_id: dict[int, Instruction] = {}

    def read(self, sequence: Sequence[int] | None) -> Computation:
        """Return the computation, in the order of its ids or, if it has one, its schedule."""
        for number, proto in enumerate(self.proto.instructions):
            name = text_of(proto.name)[:80]
            self.owner.at(f"computations[{self.number}].instructions[{number}] ({name})")
            self._instruction(proto)
        self.owner.at(f"computations[{self.number}]")
        ids = sorted(self._by_id)
        computation = self.computation
        computation.reorder([self._by_id[number] for number in ids])
        unique = self.owner.module.instruction_names.unique
        for inst in computation.instructions:
            inst.name = unique(inst.name)
        computation.set_root(self._found(self.proto.root_id))
        if sequence is not None:
            self._schedule(sequence)
        self.owner.module.adopt_computation(computation)
        return computation

    def _schedule(self, sequence: Sequence[int]) -> None:
        order = [self._found(number) for number in sequence]
        if len(order) != len(self._by_id) or len(set(order)) != len(order):
            raise BadMessage("the schedule does not name every instruction once")
        place = {inst: number for number, inst in enumerate(order)}
        for inst in order:
            for before in (*inst.operands, *inst.control_predecessors):
                if place[before] >= place[inst]:
                    raise BadMessage(f"the schedule has {inst.name} before {before.name}")
        self.computation.reorder(order)

    def _found(self, number: int) -> Instruction:
        """Return the instruction with id `number`, given in full or as its local part."""
        found = self._by_id.get(number)
        if found is None and 0 <= number < 1 << _LOCAL_BITS:
            found = self._by_id.get(self.proto.id << _LOCAL_BITS | number)
        if found is None:
            raise BadMessage(f"there is no instruction with id {number} before it")
        return found

    # ---- instructions

    def _instruction(self, proto: Any) -> None:
        """Add one instruction; its operands have been added, since messages are in post-order."""
        if proto.id in self._by_id:
            raise BadMessage(f"instruction id {proto.id} is given twice")
        row = OPCODES.get(text_of(proto.opcode))
        if row is None:
            raise BadMessage(f"unknown opcode {text_of(proto.opcode)[:80]!r}")
        shape = shape_of(proto.shape)
        operands = tuple([self._found(number) for number in proto.operand_ids])
        called = self._called(row, proto)
        check_operand_count(row, operands, called, self.owner.span)
        attributes = self._attributes(row, proto, operands, shape)
        if row.name.startswith("async-"):
            check_async(
                row, None, operands, called, shape, attributes, self.owner.span, self.computation
            )
        if attributes is not None:
            attributes = adjust_attributes(row, attributes, operands)
            check_attributes(row, attributes, operands, self.owner.span)
        shape = adjust_shape(row, shape, operands, self.owner.span)
        inst = Instruction(
            self.owner.module.new_uid(),
            legal_name(as_name(proto.name)) or row.name,
            row,
            shape,
            operands,
            attributes,
            called,
            self.computation,
            self._common(row, proto, shape),
            tuple([self._found(number) for number in proto.control_predecessor_ids]),
        )
        self.computation.adopt(inst)
        self._by_id[proto.id] = inst

    def _called(self, row: Opcode, proto: Any) -> tuple[Computation, ...]:
        if not row.calls:
            return ()
        ids = list(proto.called_computation_ids)
        if row.name == "while":
            ids.reverse()  # XLA puts the body first
        least = sum(not role.optional and not role.many for role in row.calls)
        most = len(ids) if any(role.many for role in row.calls) else len(row.calls)
        if row.name == "conditional":
            least = 1
        if not least <= len(ids) <= most:
            raise BadMessage(f"{row.name} calls {len(ids)} computations, not {least}")
        return self.owner.called(ids)

    def _attributes(
        self, row: Opcode, proto: Any, operands: tuple[Instruction, ...], shape: Shape
    ) -> Any:
        """Return the record of the row's attributes, each read by the codec of its field."""
        if row.attributes is None:
            return None
        if row.parenthesis == "literal":
            return row.attributes(literal=constant_of(proto, shape))
        if row.parenthesis:
            return row.attributes(number=proto.parameter_number)
        owner = self.owner
        context = Context(
            row.name, tuple([o.shape for o in operands]), owner.grammar, owner.payloads
        )
        found = {}
        for field, codec in codecs_of(row.name):
            value = codec.read(proto, context)
            if value is None and field.required:
                raise BadMessage(f"{row.name} has no {field.name}")
            check_choice(row, field, value)
            found[field.field] = value
        return row.attributes(**found)

    def _common(self, row: Opcode, proto: Any, shape: Shape) -> CommonAttributes:
        """Return the attributes that any opcode may have, one object for those without any."""
        owner = self.owner
        found: dict[str, Any] = {}
        if proto.HasField("sharding"):
            sharding = owner.grammar("sharding", sharding_text(proto.sharding, owner.payloads))
            if isinstance(shape, TupleShape):
                sharding = sharding.for_leaves(sum(1 for _ in leaves(shape)))
            found["sharding"] = sharding
        if proto.HasField("frontend_attributes") and proto.frontend_attributes.map:
            found["frontend_attributes"] = frontend_pairs(proto.frontend_attributes)
        if proto.HasField("statistics_viz"):
            found["statistics"] = read_statistics(proto.statistics_viz, owner.grammar)
        if proto.HasField("parameter_replication"):
            found["parameter_replication"] = replication_of(row, proto, shape)
        if proto.HasField("result_accuracy") and row.result_accuracy:
            found["result_accuracy"] = read_accuracy(proto.result_accuracy, owner.grammar)
        if proto.HasField("original_value"):
            found["origin"] = read_origin(proto.original_value, owner.grammar)
        if proto.HasField("metadata"):
            found["metadata"] = optional_metadata(proto.metadata, owner.payloads)
        config = proto.backend_config or payload_of(proto.backend_config_payload, owner.payloads)
        if config:
            found["backend_config"] = text_of(config)
        common = CommonAttributes(**found)
        return NO_COMMON if common == NO_COMMON else common
