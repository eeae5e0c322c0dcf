"""Modules as text, byte for byte as XLA prints them (format reference, section 13)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hloc.dtypes import PRED
from hloc.errors import HloError
from hloc.ir.attribute_fields import (
    KINDS,
    AttributeField,
    attribute_fields,
    int_list_text,
    metadata_text,
    quoted,
)
from hloc.ir.attributes import NO_COMMON, CommonAttributes, EntryLayout
from hloc.ir.compact_elements import CompactElements
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.literal_text import literal_text
from hloc.ir.names import is_other_token
from hloc.ir.print_order import computation_order, instruction_order, sugar_of
from hloc.ir.stack_frame_tables import FrameNumbering, tables_text
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, Shape, TupleShape

if TYPE_CHECKING:
    from hloc.ir.module import Module


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """XLA's print options of the same names (format reference, 13.1)."""

    large_constants: bool = False
    metadata: bool = True
    backend_config: bool = True
    operand_shape: bool = False
    operand_names: bool = True
    program_shape: bool = True
    percent: bool = True
    control_dependencies: bool = True
    canonical_names: bool = False
    bodies: bool = False
    operand_index: bool = True
    compact_elements: bool = False


TUPLE_STYLES = ("full", "compact")
"""Elements of tuples: a get-tuple-element each, or `p#0` at the use (docs/text-versions.md)."""

STYLES = {
    "default": PrintOptions(),
    "short": PrintOptions(
        large_constants=True, metadata=False, program_shape=False, percent=False,
        control_dependencies=False, operand_index=False,
    ),
    "canonical": PrintOptions(
        metadata=False, backend_config=False, operand_shape=True, operand_names=False,
        program_shape=False, percent=False, control_dependencies=False, canonical_names=True,
        bodies=True, operand_index=False,
    ),
}  # fmt: skip


def print_module(
    module: Module,
    style: str = "default",
    *,
    large_constants: bool | None = None,
    tuple_style: str = "full",
) -> str:
    """Return the text of `module`.

    Args:
        module: any module.
        style: `default`, `short` or `canonical`.
        large_constants: print constants of more than 10 elements; None takes the style's choice.
        tuple_style: `full`, or `compact`, which writes get-tuple-element instructions as
            `p#0`; those with further attributes keep a line.

    Raises:
        HloError: there is no such style.
    """
    if style not in STYLES:
        raise HloError(f"unknown print style {style}; there are {', '.join(STYLES)}")
    if tuple_style not in TUPLE_STYLES:
        raise HloError(f"unknown tuple style {tuple_style}; there are {', '.join(TUPLE_STYLES)}")
    options = replace(STYLES[style], compact_elements=tuple_style == "compact")
    if large_constants is not None:
        options = replace(options, large_constants=large_constants)
    return _Printer(options, module).module()


def print_instruction(inst: Instruction, style: str = "default") -> str:
    """Return the line of `inst`, without indentation and `ROOT`."""
    return instruction_printer(inst.computation.module, style)(inst)


def instruction_printer(module: Module, style: str = "default") -> Callable[[Instruction], str]:
    """Return what prints instructions of `module`, as long as nothing changes it.

    What the lines have in common is found out once.
    """
    printer = _Printer(STYLES[style], module)
    return lambda inst: printer.instruction(inst, {}, 0)


class _Printer:
    def __init__(self, options: PrintOptions, module: Module) -> None:
        self.options = options
        self.of = module
        # A keyword is a name only after `%`; `canonical` makes its own names.
        percent = options.percent or (
            not options.canonical_names
            and (module.instruction_names.has_keyword() or module.computation_names.has_keyword())
        )
        self.percent = "%" if percent else ""
        self.frames = FrameNumbering(module.stack_frames)
        # Texts by identity of attributes: equal attributes are mostly one object.
        self._attributes_known: dict[int, str] = {}
        self._common_known: dict[int, str] = {}
        self.elements = CompactElements(module) if options.compact_elements else None

    # ---- module

    def module(self) -> str:
        """Return the whole text."""
        if self.options.metadata:
            self.frames.number(
                inst.common.metadata
                for computation in self.of.computations
                for inst in computation.instructions
                if inst.common.metadata is not None
            )
        parts = [self.header(), "\n\n"]
        if self.options.metadata:
            parts.append(tables_text(self.frames.tables()))
        for computation in computation_order(self.of):
            parts.append(self.computation(computation))
            parts.append("\n\n")
        return "".join(parts)

    def header(self) -> str:
        """Return the `HloModule` line."""
        config = self.of.config
        sigil = "%" if is_other_token(self.of.name) else ""
        parts = [f"HloModule {sigil}{self.of.name}"]
        if config.is_scheduled:
            parts.append("is_scheduled=true")
        if config.aliases:
            aliases = sorted(config.aliases, key=lambda alias: alias.output_index)
            text = ", ".join(
                f"{int_list_text(a.output_index)}: ({a.parameter}, "
                f"{int_list_text(a.parameter_index)}, {'must' if a.must else 'may'}-alias)"
                for a in aliases
            )
            parts.append(f"input_output_alias={{ {text} }}")
        if config.buffer_donors:
            text = ", ".join(
                f"({number}, {int_list_text(index)})"
                for number, index in sorted(set(config.buffer_donors))
            )
            parts.append(f"buffer_donor={{ {text} }}")
        if config.alias_passthrough_params:
            parts.append("alias_passthrough_params=true")
        parts.append(f"entry_computation_layout={{{_entry_layout_text(self.entry_layout())}}}")
        for name, flags in (
            ("parameters", config.propagate_sharding_to_parameters),
            ("output", config.propagate_sharding_to_output),
        ):
            if flags != (False,):
                text = ",".join("true" if flag else "false" for flag in flags)
                parts.append(f"allow_spmd_sharding_propagation_to_{name}={{{text}}}")
        if config.replica_count != 1:
            parts.append(f"replica_count={config.replica_count}")
        if config.num_partitions != 1:
            parts.append(f"num_partitions={config.num_partitions}")
        if config.frontend_attributes:
            parts.append(f"frontend_attributes={_pairs_text(config.frontend_attributes)}")
        if config.origin_recovery_table is not None:
            parts.append(f"origin_recovery_table={config.origin_recovery_table}\n")
        debug = f",\ndebug_attributes={config.debug_attributes}" if config.debug_attributes else ""
        return ", ".join(parts) + debug

    def entry_layout(self) -> EntryLayout:
        """Return the layout the header states or, without one, that of the entry computation."""
        if self.of.config.entry_layout is not None:
            return self.of.config.entry_layout
        entry = self.of.entry
        return EntryLayout(tuple(p.shape for p in entry.parameters), entry.root.shape)

    # ---- computations

    def computation(self, computation: Computation, indent: int = 0, name: bool = True) -> str:
        """Return `name (parameters) -> shape { ... }`."""
        pad = "  " * indent
        head = ""
        if name:
            entry = "ENTRY " if computation is self._entry() else ""
            head = f"{pad}{entry}{self.percent}{computation.name} "
            if self.options.program_shape:
                parameters = ", ".join(
                    f"{p.name}: {p.shape.text_without_layout}" for p in computation.parameters
                )
                head += f"({parameters}) -> {computation.root.shape.text_without_layout} "
        else:
            head = pad
        lines = [head + "{"]
        numbers: dict[Instruction, int] = {}
        root = computation.root
        for inst in instruction_order(computation, scheduled=name):
            if self.elements and inst is not root and inst in self.elements:
                continue
            if self.options.canonical_names:
                numbers[inst] = len(numbers)
            mark = "ROOT " if inst is root else ""
            lines.append(f"{pad}  {mark}{self.instruction(inst, numbers, indent + 1)}")
        end = pad + "}"
        if computation.execution_thread != "main":
            end += f', execution_thread="{computation.execution_thread}"'
        lines.append(end)
        return "\n".join(lines)

    def _entry(self) -> Computation | None:
        return self.of._entry

    # ---- instructions

    def instruction(self, inst: Instruction, numbers: dict[Instruction, int], indent: int) -> str:
        """Return `name = shape opcode(operands), attributes`."""
        name = self._name(inst, numbers)
        opcode, wrapped = sugar_of(inst)
        text = f"{self.percent}{name} = {inst.shape} {opcode}({self._operands(inst, numbers)})"
        if inst.common.parameter_replication:
            flags = ",".join(
                "true" if flag else "false" for flag in inst.common.parameter_replication
            )
            text += f", parameter_replication={{{flags}}}"
        if inst.called or wrapped is not None or inst.opcode.name == "compare":
            text += "".join(self._own_attributes(inst, wrapped, indent))
        elif inst.opcode.attributes is not None:
            text += self._plain_attributes(inst)
        if wrapped is not None or inst.control_predecessors:
            common = inst.common if wrapped is None else _with_wrapped(inst.common, wrapped.common)
            text += self._common(inst, common)
        elif inst.common is not NO_COMMON:
            text += self._plain_common(inst)
        return text

    def _plain_attributes(self, inst: Instruction) -> str:
        """Return the row's attributes if their text depends on their values only."""
        if inst.opcode.parenthesis:
            return ""
        key = id(inst.attributes)
        found = self._attributes_known.get(key)
        if found is None:
            found = "".join(self._own_attributes(inst, None, 0))
            self._attributes_known[key] = found
        return found

    def _plain_common(self, inst: Instruction) -> str:
        key = id(inst.common)
        found = self._common_known.get(key)
        if found is None:
            found = self._common_known[key] = self._common(inst, inst.common)
        return found

    def _name(self, inst: Instruction, numbers: dict[Instruction, int]) -> str:
        return f"tmp_{numbers[inst]}" if numbers and inst in numbers else inst.name

    def _operands(self, inst: Instruction, numbers: dict[Instruction, int]) -> str:
        """Return what stands between the parentheses after the opcode."""
        parenthesis = inst.opcode.parenthesis
        if parenthesis == "literal":
            return literal_text(inst.attributes.literal, self.options.large_constants)
        if parenthesis:
            return str(getattr(inst.attributes, parenthesis))
        operands = inst.operands
        if self.elements:
            named = map(self.elements.split, operands)
            shown = [self._name(operand, numbers) + path for operand, path in named]
        else:
            shown = [self._name(operand, numbers) for operand in operands]
        texts = [self.percent + name for name in shown]
        if self.options.operand_shape:
            shapes = [str(operand.shape) for operand in operands]
            if self.options.canonical_names or self.options.operand_names:
                shapes = [f"{shape} {text}" for shape, text in zip(shapes, texts, strict=True)]
            texts = shapes
        if len(texts) > 5 and self.options.operand_index:
            texts = [f"/*index={i}*/{t}" if i and i % 5 == 0 else t for i, t in enumerate(texts)]
        return ", ".join(texts)

    def _own_attributes(
        self, inst: Instruction, wrapped: Instruction | None, indent: int
    ) -> Iterator[str]:
        """Yield the row's attributes and called computations, each with its `, `."""
        late = []
        for field, value in printed_values(inst):
            text = f", {field.name}={KINDS[field.kind](value)}"
            if field.name == "is_composite":
                late.append(text)
            else:
                yield text
        if wrapped is not None:
            yield from self._own_attributes(wrapped, None, indent)
            if self.options.bodies:
                yield self._called_text("calls", inst.called, False, indent)
            return
        yield from self._called(inst, indent)
        yield from late

    def _called(self, inst: Instruction, indent: int) -> Iterator[str]:
        start = 0
        for role in inst.opcode.calls:
            if inst.opcode.name == "conditional":
                by_pred = len(inst.called) == 2 and _is_pred(inst.operands[0].shape)
                if (role.name == "branch_computations") == by_pred:
                    continue
            stop = len(inst.called) if role.many else start + 1
            if inst.called[start:stop]:
                yield self._called_text(role.name, inst.called[start:stop], role.many, indent)
            start = stop

    def _called_text(
        self, role: str, called: tuple[Computation, ...], many: bool, indent: int
    ) -> str:
        if self.options.bodies:
            bodies = ",\n".join(self.computation(c, indent, name=False) for c in called)
            return f", {role}={{\n{bodies}\n}}" if many else f", {role}=\n{bodies}"
        names = ", ".join(self.percent + computation.name for computation in called)
        return f", {role}={{{names}}}" if many else f", {role}={names}"

    def _common(self, inst: Instruction, common: CommonAttributes) -> str:
        """Return the attributes that any opcode may have, in XLA's order."""
        parts = []
        if common.sharding is not None:
            parts.append(f", sharding={common.sharding.text(self.options.metadata)}")
        if common.frontend_attributes:
            parts.append(f", frontend_attributes={_pairs_text(common.frontend_attributes)}")
        if inst.control_predecessors and self.options.control_dependencies:
            names = ", ".join(self.percent + p.name for p in inst.control_predecessors)
            parts.append(f", control-predecessors={{{names}}}")
        if common.statistics is not None:
            parts.append(f", statistics={common.statistics}")
        if common.result_accuracy is not None:
            parts.append(f", result_accuracy={common.result_accuracy}")
        if common.origin is not None:
            parts.append(f", origin={common.origin}")
        if common.metadata is not None and self.options.metadata:
            text = metadata_text(
                common.metadata, self.frames.new_id(common.metadata.stack_frame_id)
            )
            if text:
                parts.append(f", metadata={{{text}}}")
        if common.backend_config and self.options.backend_config:
            parts.append(f", backend_config={backend_config_text(common)}")
        return "".join(parts)


def printed_values(inst: Instruction) -> Iterator[tuple[AttributeField, Any]]:
    """Yield the attributes that XLA prints: those without an omitted default."""
    for field in attribute_fields(inst.opcode.attributes):
        value = getattr(inst.attributes, field.field)
        if value is None or (value == field.default and not field.always):
            continue
        if not _left_out(inst, field, value):
            yield field, value


def _with_wrapped(common: CommonAttributes, wrapped: CommonAttributes) -> CommonAttributes:
    """Return the attributes that an async-start prints: its own, else the wrapped ones."""
    return replace(
        common,
        sharding=common.sharding or wrapped.sharding,
        frontend_attributes=common.frontend_attributes or wrapped.frontend_attributes,
        statistics=common.statistics or wrapped.statistics,
    )


def _is_pred(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and shape.dtype is PRED


def _left_out(inst: Instruction, field: AttributeField, value: Any) -> bool:
    """Tell whether XLA omits the attribute by a special rule."""
    if field.name == "window" and inst.opcode.name != "custom-call":
        return not value.dimensions
    if field.name == "operand_precision":
        return all(precision == "default" for precision in value)
    if field.name == "type" and inst.opcode.name == "compare":
        return bool(value == _default_comparison(inst))
    return False


def _default_comparison(inst: Instruction) -> str:
    dtype = inst.operands[0].array.dtype
    if dtype.is_float or dtype.is_complex:
        return "FLOAT"
    return "SIGNED" if dtype.is_signed else "UNSIGNED"


def _entry_layout_text(layout: EntryLayout) -> str:
    parameters = str(TupleShape(layout.parameters))
    return f"{parameters}->{layout.result}"


def _pairs_text(pairs: tuple[tuple[str, str], ...]) -> str:
    return "{" + ",".join(f"{key}={value}" for key, value in pairs) + "}"


# XLA omits an empty queue list when it prints a dictionary.
_NO_QUEUES = re.compile(r'"wait_on_operation_queues":\s*\[\s*\],')


def backend_config_text(common: CommonAttributes) -> str:
    """Return the text of a backend config, as XLA prints it."""
    config = common.backend_config or ""
    return _NO_QUEUES.sub("", config) if _is_dictionary(config) else quoted(config)


def _is_dictionary(text: str) -> bool:
    """Tell whether `text` is one dictionary in braces, counting braces outside strings as XLA."""
    if not text.startswith("{"):
        return False
    depth, at = 0, 0
    while at < len(text):
        char = text[at]
        if char == '"':
            at += 1
            while at < len(text) and text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return at == len(text) - 1
        at += 1
    return False
