"""Conversion of a module to `HloModuleProto`, field by field as XLA writes it.

Replicas, partitions, sharding propagation and the origin recovery table of the `HloModule` line are
not part of the message.
"""

from __future__ import annotations

from typing import Any

from hloc.errors import HloError
from hloc.formats.faults import BadMessage, bytes_of, number_of
from hloc.formats.proto_attributes import Context, codecs_of
from hloc.formats.proto_devices import fill_sharding
from hloc.formats.proto_literals import fill_literal
from hloc.formats.proto_metadata import fill_metadata
from hloc.formats.proto_raw import fill_accuracy, fill_origin, fill_statistics
from hloc.formats.proto_shapes import fill_shape
from hloc.formats.runtime import message_class
from hloc.ir.attributes import CommonAttributes, StackFrames
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order, reachable_computations
from hloc.parser.strings import unquote
from hloc.parser.values import ValueReader
from hloc.source import SourceFile

_LOCAL_BITS = 32


def module_to_bytes(module: Module) -> bytes:
    """Return `module` as a serialized `HloModuleProto`.

    Raises:
        HloError: a value does not fit into a message; protobuf is not installed.
    """
    data: bytes = module_to_proto(module).SerializeToString(deterministic=True)
    return data


def module_to_proto(module: Module) -> Any:
    """Return `module` as an `HloModuleProto`; errors as for `module_to_bytes`."""
    proto = message_class("HloModuleProto")()
    writer = _Writer(module)
    try:
        writer.fill(proto)
    except (BadMessage, ValueError) as fault:  # ValueError: a number too large for its field
        raise HloError(f"{writer.place}{fault}") from None
    return proto


class _Writer:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.values = ValueReader(SourceFile("", module.name))
        self.ids: dict[Computation, int] = {}
        self.place = ""

    def fill(self, proto: Any) -> None:
        """Fill an empty `HloModuleProto` with the whole module."""
        module = self.module
        proto.name = bytes_of(module.name)
        for computation in reachable_computations(*module.computations):
            self.ids[computation] = len(self.ids)
        scheduled = module.config.is_scheduled
        if scheduled:
            proto.schedule.SetInParent()
        for computation, number in self.ids.items():
            order = _stored_order(computation)
            self._computation(proto.computations.add(), computation, number, order)
            if scheduled and not computation.is_fusion:
                sequence = proto.schedule.sequences.add(key=number).value.instruction_ids
                sequence.extend(number << _LOCAL_BITS | at for at in range(len(order)))
        self.place = ""
        proto.entry_computation_name = bytes_of(module.entry.name)
        proto.entry_computation_id = self.ids[module.entry]
        self._config(proto)
        _fill_stack_frames(proto.stack_frame_index, module.stack_frames)

    def _config(self, proto: Any) -> None:
        """Write the entry's signature, aliases and donors; an empty table too, as XLA does."""
        config = self.module.config
        entry = self.module.entry
        parameters = tuple(p.shape for p in entry.parameters)
        result = entry.root.shape
        if config.entry_layout is not None:
            parameters, result = config.entry_layout.parameters, config.entry_layout.result
        for number, shape in enumerate(parameters):
            fill_shape(proto.host_program_shape.parameters.add(), shape)
            proto.host_program_shape.parameter_names.append(b"p%d" % number)
        fill_shape(proto.host_program_shape.result, result)
        proto.input_output_alias.SetInParent()
        for alias in config.aliases:
            proto.input_output_alias.entries.add(
                output_shape_index=alias.output_index,
                parameter_number=alias.parameter,
                parameter_shape_index=alias.parameter_index,
                kind=number_of("alias", "must" if alias.must else "may"),
            )
        for parameter, index in config.buffer_donors:
            proto.buffer_donor.entries.add(parameter_number=parameter, parameter_shape_index=index)
        _fill_pairs(proto.frontend_attributes, config.frontend_attributes)

    def _computation(
        self, proto: Any, computation: Computation, number: int, order: list[Instruction]
    ) -> None:
        """Write a computation whose id is `number`; ids of its instructions contain it."""
        proto.name = bytes_of(computation.name)
        proto.id = number
        proto.execution_thread = bytes_of(
            "" if computation.execution_thread == "main" else computation.execution_thread
        )
        proto.is_fusion_computation = computation.is_fusion
        ids = {inst: number << _LOCAL_BITS | at for at, inst in enumerate(order)}
        for inst in order:
            self.place = f"{inst.name}: "
            self._instruction(proto.instructions.add(), inst, ids)
        proto.root_id = ids[computation.root]
        for parameter in computation.parameters:
            fill_shape(proto.program_shape.parameters.add(), parameter.shape)
            proto.program_shape.parameter_names.append(bytes_of(parameter.name))
        fill_shape(proto.program_shape.result, computation.root.shape)

    def _instruction(self, proto: Any, inst: Instruction, ids: dict[Instruction, int]) -> None:
        """Write one instruction; of a loop, the body comes before the condition, as in XLA."""
        proto.name = bytes_of(inst.name)
        proto.opcode = bytes_of(inst.opcode.name)
        proto.id = ids[inst]
        fill_shape(proto.shape, inst.shape)
        proto.operand_ids.extend([ids[operand] for operand in inst.operands])
        proto.control_predecessor_ids.extend([ids[before] for before in inst.control_predecessors])
        called = inst.called[::-1] if inst.opcode.name == "while" else inst.called
        proto.called_computation_ids.extend([self.ids[computation] for computation in called])
        if inst.opcode.parenthesis == "literal":
            if not inst.attributes.literal.is_elided:  # otherwise no literal, which XLA reads too
                fill_literal(proto.literal, inst.attributes.literal)
        elif inst.opcode.parenthesis:
            proto.parameter_number = inst.attributes.number
        elif inst.attributes is not None:
            context = Context(
                inst.opcode.name, tuple([o.shape for o in inst.operands]), self._grammar
            )
            for field, codec in codecs_of(inst.opcode.name):
                codec.write(proto, getattr(inst.attributes, field.field), context)
        _fill_common(proto, inst.common)

    def _grammar(self, rule: str, text: str) -> Any:
        return self.values.read(rule, text, 0)


def _stored_order(computation: Computation) -> list[Instruction]:
    """Return the instructions in stored order if operands come first, else in post-order."""
    place = {inst: at for at, inst in enumerate(computation.instructions)}
    in_order = all(
        place[before] < at
        for inst, at in place.items()
        for before in (*inst.operands, *inst.control_predecessors)
    )
    return list(place) if in_order else list(post_order(computation))


def _fill_common(proto: Any, common: CommonAttributes) -> None:
    """Write the attributes that any opcode may have."""
    if common.sharding is not None:
        proto.sharding.SetInParent()
        fill_sharding(proto.sharding, common.sharding)
    _fill_pairs(proto.frontend_attributes, common.frontend_attributes)
    if common.statistics is not None:
        fill_statistics(proto.statistics_viz, common.statistics)
    if common.parameter_replication:
        flags = proto.parameter_replication.replicated_at_leaf_buffers
        flags.extend(common.parameter_replication)
    if common.result_accuracy is not None:
        fill_accuracy(proto.result_accuracy, common.result_accuracy)
    if common.origin is not None:
        fill_origin(proto.original_value, common.origin)
    if common.metadata is not None:
        fill_metadata(proto.metadata, common.metadata)
    if common.backend_config:
        proto.backend_config = bytes_of(common.backend_config)


def _fill_pairs(proto: Any, pairs: tuple[tuple[str, str], ...]) -> None:
    for key, printed in pairs:
        value = unquote(printed) if printed.startswith('"') else printed
        proto.map.add(key=bytes_of(key), value=bytes_of(value))


def _fill_stack_frames(proto: Any, tables: StackFrames) -> None:
    proto.file_names.extend(bytes_of(name) for name in tables.file_names)
    proto.function_names.extend(bytes_of(name) for name in tables.function_names)
    for place in tables.file_locations:
        proto.file_locations.add(
            file_name_id=place.file_name_id,
            function_name_id=place.function_name_id,
            line=place.line,
            end_line=place.end_line,
            column=place.column,
            end_column=place.end_column,
        )
    for frame in tables.frames:
        proto.stack_frames.add(
            file_location_id=frame.file_location_id, parent_frame_id=frame.parent_frame_id - 1
        )
