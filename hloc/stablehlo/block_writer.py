"""Writes the instructions of one function or region as operations of StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, NoReturn, TypeAlias

from hloc.analysis.call_graph import live_instructions
from hloc.errors import UnsupportedError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import Shape, leaves
from hloc.stablehlo.attribute_text import dictionary_text, record_text, string_text
from hloc.stablehlo.forms import FORMS
from hloc.stablehlo.operations import CHLO, OPERATION_OF, write_attributes
from hloc.stablehlo.types import type_text

_CHLO_OF = {opcode: name for name, opcode in CHLO.items() if name != "top_k"}
_FORWARDED = ("copy", "domain", "add-dependency")
"""Opcodes that forward their first operand."""


def types_of(shape: Shape) -> list[str]:
    return [type_text(leaf) for _, leaf in leaves(shape)]


def listed(types: Sequence[str]) -> str:
    """Return the result types of a signature: one without, several in parentheses."""
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


@dataclass(slots=True)
class Names:
    """Counters of the names in one function."""

    value: int = 0
    argument: int = 0

    def new_value(self) -> str:
        self.value += 1
        return f"%{self.value - 1}"

    def new_argument(self) -> str:
        self.argument += 1
        return f"%iterArg_{self.argument - 1}"


@dataclass(slots=True)
class Functions:
    """The functions called by the operations written so far.

    Attributes:
        pending: functions that are not written yet.
    """

    names: dict[Computation, str] = field(default_factory=dict)
    pending: list[Computation] = field(default_factory=list)

    def called(self, computation: Computation) -> str:
        """Return the name of the function for `computation`, which is written later."""
        if computation not in self.names:
            taken = {"main", *self.names.values()}
            name = symbol(computation.name)
            while name in taken:
                name += "_"
            self.names[computation] = name
            self.pending.append(computation)
        return self.names[computation]


Special: TypeAlias = dict[str, Callable[["BlockWriter", Instruction], None]]
"""Opcode -> its writer, for instructions with special syntax."""


@dataclass(slots=True)
class BlockWriter:
    """Writes the operations of one block."""

    functions: Functions
    special: Special
    names: Names
    indent: int
    lines: list[str] = field(default_factory=list)
    values: dict[Instruction, list[str]] = field(default_factory=dict)

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def computation(self, computation: Computation) -> list[str]:
        """Write what the root needs, with named parameters; return the names of the results."""
        for inst in live_instructions(computation):
            if inst not in self.values:
                self._instruction(inst)
        return self.values[computation.root]

    # ---- single instructions

    def _instruction(self, inst: Instruction) -> None:
        name = inst.opcode.name
        special = self.special.get(name)
        if special is not None:
            special(self, inst)
        elif name in _FORWARDED:
            self.values[inst] = self.values[inst.operands[0]]
        elif name in _CHLO_OF:
            self.assign(inst, f"chlo.{_CHLO_OF[name]} {self.operands(inst)} : ", arrow=True)
        elif name in OPERATION_OF:
            self._operation(inst, OPERATION_OF[name], write_attributes(OPERATION_OF[name], inst))
        elif name.replace("-", "_") in FORMS and not inst.called:
            self._operation(inst, name.replace("-", "_"), {})
        else:
            self.fail(inst)

    def fail(self, inst: Instruction, why: str = "has no operation in StableHLO") -> NoReturn:
        raise UnsupportedError(f"{inst.opcode.name} {inst.name!r} {why}", inst.span)

    def operands(self, inst: Instruction) -> str:
        return ", ".join(self.names_of(inst.operands))

    def names_of(self, operands: Sequence[Instruction]) -> list[str]:
        return [name for operand in operands for name in self.values[operand]]

    def signature(self, inst: Instruction) -> str:
        types = [text for operand in inst.operands for text in types_of(operand.shape)]
        return f"({', '.join(types)}) -> {listed(types_of(inst.shape))}"

    def assign(self, inst: Instruction, text: str, *, arrow: bool = False) -> None:
        """Write `%0 = text types`; with `arrow` the types end with `a, b -> c`."""
        types = types_of(inst.shape)
        if arrow:
            sources = [t for operand in inst.operands for t in types_of(operand.shape)]
            text += f"{', '.join(sources)} -> {listed(types)}"
        result = self.names.new_value()
        count = len(types)
        self.values[inst] = [result] if count == 1 else [f"{result}#{i}" for i in range(count)]
        prefix = "" if not count else f"{result} = " if count == 1 else f"{result}:{count} = "
        self.line(prefix + text + _location(inst))

    def _operation(self, inst: Instruction, name: str, attributes: dict[str, Any]) -> None:
        sharding = inst.common.sharding
        extra = f" {{mhlo.sharding = {string_text(str(sharding))}}}" if sharding is not None else ""
        custom = _custom_parts(name, attributes)
        if inst.called or custom is None:
            self._generic(inst, name, attributes, extra)
            return
        before, after = custom
        operands = self.operands(inst)
        text = f"stablehlo.{name} {before}{operands}{after}".rstrip()
        self.assign(inst, f"{text}{extra} : {self._signature(inst, name)}")

    def _signature(self, inst: Instruction, name: str) -> str:
        """Return the types after a custom form, as short as it allows."""
        types = {types_of(operand.shape)[0] for operand in inst.operands} | set(
            types_of(inst.shape)
        )
        short = FORMS[name].types if name in FORMS else "function"
        if short == "result" or (short == "same" and len(types) == 1):
            return types_of(inst.shape)[0]
        return self.signature(inst)

    def _generic(
        self, inst: Instruction, name: str, attributes: dict[str, Any], extra: str
    ) -> None:
        """Write `"stablehlo.sort"(%0) <{...}> ({region}) : (...) -> ...`."""
        properties = f" <{{{dictionary_text(attributes)}}}>" if attributes else ""
        regions = [self.region(computation) for computation in inst.called]
        blocks = f" ({', '.join(regions)})" if regions else ""
        text = f'"stablehlo.{name}"({self.operands(inst)}){properties}{blocks}{extra}'
        self.assign(inst, f"{text} : {self.signature(inst)}")

    # ---- regions

    def inner(self) -> BlockWriter:
        return BlockWriter(
            self.functions, self.special, self.names, self.indent + 1, [], dict(self.values)
        )

    def region(self, computation: Computation) -> str:
        """Return a computation as a region with its parameters as block arguments."""
        block = self.inner()
        arguments = []
        for parameter in computation.parameters:
            names = [self.names.new_argument() for _ in types_of(parameter.shape)]
            block.values[parameter] = names
            arguments += [
                f"{n}: {t}" for n, t in zip(names, types_of(parameter.shape), strict=True)
            ]
        return self.closed(block, computation, f"^bb0({', '.join(arguments)}):")

    def closed(self, block: BlockWriter, computation: Computation, label: str = "") -> str:
        """Return `{ label, operations, return }` of `computation` in `block`."""
        results = block.computation(computation)
        types = types_of(computation.root.shape)
        ending = f" {', '.join(results)} : {', '.join(types)}" if results else ""
        block.line(f"stablehlo.return{ending}")
        pad = "  " * self.indent
        head = ["{", pad + label] if label else ["{"]
        return "\n".join([*head, *block.lines, pad + "}"])


# ---------------------------------------------------------------- custom syntax


def _custom_parts(name: str, attributes: dict[str, Any]) -> tuple[str, str] | None:
    """Return the text before and after the operands, None if only the generic form fits."""
    if name == "slice":
        ranges = zip(*(attributes[n] for n in ("start_indices", "limit_indices", "strides")),
                     strict=True)  # fmt: skip
        texts = [f"{a}:{b}" if s == 1 else f"{a}:{b}:{s}" for a, b, s in ranges]
        return "", f" [{', '.join(texts)}]"
    if name == "compare":
        kind = attributes.get("compare_type")
        return f"{attributes['comparison_direction']}, ", f", {kind}" if kind else ""
    if name == "dot_general":
        return "", _dot_parts(attributes)
    if name == "reduce_precision":
        return "", f", format = e{attributes['exponent_bits']}m{attributes['mantissa_bits']}"
    form = FORMS.get(name)
    if form is None or form.words or form.bracketed or "" in form.keys.values():
        return None
    parts = [
        f"{key} = {_bare(attributes[attribute])}"
        for key, attribute in form.keys.items()
        if attribute in attributes
    ]
    if name == "iota":
        return parts[0], ""
    return "", "".join(f", {part}" for part in parts)


def _dot_parts(attributes: dict[str, Any]) -> str:
    numbers = attributes["dot_dimension_numbers"]
    parts = []
    for kind in ("batching", "contracting"):
        lhs, rhs = (list(numbers[f"{side}_{kind}_dimensions"]) for side in ("lhs", "rhs"))
        if lhs or rhs or kind == "contracting":
            parts.append(f"{kind}_dims = {lhs} x {rhs}")
    parts.append(f"precision = {_bare(attributes['precision_config'])}")
    if "algorithm" in attributes:
        parts.append(f"algorithm = <{record_text(attributes['algorithm'])}>")
    return ", " + ", ".join(parts)


def _bare(value: Any) -> str:
    """Return a value in custom syntax: `[1, 0]`, `[HIGH, DEFAULT]`, `true`."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------- names and places


def symbol(name: str) -> str:
    """Return a function name after `@`, quoted unless it has only letters, digits and `_.-`."""
    plain = name.replace(".", "").replace("_", "").replace("-", "").replace("$", "")
    return (
        name if plain.isalnum() and plain.isascii() and not name[0].isdigit() else string_text(name)
    )


def _location(inst: Instruction) -> str:
    """Return ` loc("op_name"("file":line:column))` from the metadata, "" without metadata."""
    metadata = inst.common.metadata
    if metadata is None or not (metadata.op_name or metadata.source_file):
        return ""
    place = ""
    if metadata.source_file:
        file = string_text(metadata.source_file)
        place = f"{file}:{metadata.source_line}:{metadata.source_column}"
    if not metadata.op_name:
        return f" loc({place})"
    name = string_text(metadata.op_name)
    return f" loc({name}({place}))" if place else f" loc({name})"
