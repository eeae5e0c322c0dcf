"""Adds the operations of one function or region to a computation.

Values that a region of a loop or branch captures are passed as parameters; constants
are repeated inside, as in XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, NoReturn, TypeAlias

from hloc.errors import Diagnostic, HloError, UnsupportedError
from hloc.ir.attribute_fields import AttributeField, attribute_fields, quoted
from hloc.ir.attributes import NO_COMMON, CommonAttributes
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import Opcode
from hloc.lazy_dataclass import dataclass
from hloc.ops import OPCODES
from hloc.parser.reader import legal_name
from hloc.parser.values import ValueReader
from hloc.shapes import ArrayShape, Shape, TupleShape, compatible
from hloc.source import SourceFile, Span
from hloc.stablehlo.chlo import expanded
from hloc.stablehlo.codecs import BadAttribute
from hloc.stablehlo.locations import Locations
from hloc.stablehlo.names import free_names, identifier
from hloc.stablehlo.operations import CHLO, CONVERSIONS, Conversion, read_attributes
from hloc.stablehlo.tree import Function, Operation, Region

Environment: TypeAlias = dict[str, list[Instruction]]
"""Name of a value, `%0`, and its elements: several results share one name."""


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "float": lambda value: isinstance(value, (int, float)),
    "int": _is_integer,
    "int_list": lambda value: isinstance(value, tuple) and all(map(_is_integer, value)),
    "string": lambda value: isinstance(value, str),
}
"""Kind of an attribute -> whether a value is of this kind."""


def _fits(attribute: AttributeField, value: Any) -> bool:
    """True if `attribute` of an opcode can have `value`."""
    if attribute.choices:
        words = value if attribute.kind == "enum_list" else (value,)
        known = {choice.lower() for choice in attribute.choices} | {""}
        return all(isinstance(word, str) and word.lower() in known for word in words)
    return _KINDS[attribute.kind](value) if attribute.kind in _KINDS else True


@dataclass(frozen=True, slots=True)
class Context:
    """The state shared by the blocks of a module.

    Attributes:
        special: operations whose structure differs from HLO's, and their converters.
        computations: functions by name, callees before their callers.
    """

    source: SourceFile
    module: Module
    locations: Locations
    special: dict[str, Callable[[BlockBuilder, Operation], None]]
    values: ValueReader
    computations: dict[str, Computation] = field(default_factory=dict)


class BlockBuilder:
    """Adds the operations of one function or region to one computation."""

    def __init__(self, context: Context, computation: Computation) -> None:
        self.context = context
        self.computation = computation
        self.values: Environment = {}
        self.span: Span | None = None
        self.common: CommonAttributes = NO_COMMON
        self.name = ""

    # ---- blocks

    def function(self, function: Function) -> None:
        """Add parameters, operations and the root of a function."""
        for number, (name, shape) in enumerate(function.body.parameters):
            attributes = function.parameter_attributes[number]
            self.span = Span(self.context.source, function.start, function.end)
            self.common = self._common(attributes)
            self.values[name] = [self.parameter(number, shape)]
        results = self.operations(function.body)
        declared = [inst.shape for inst in results]
        if len(declared) != len(function.result_types):
            raise HloError(
                f"function @{function.name} declares {len(function.result_types)} results, "
                f"but returns {len(declared)}", self.span, (), "HLOC0402",
            )  # fmt: skip
        self.root(results)

    def operations(self, region: Region) -> list[Instruction]:
        """Add all operations of `region` and return its results."""
        for operation in region.operations:
            self.span = Span(self.context.source, operation.start, operation.end)
            if operation.name.rpartition(".")[2] == "return":
                return self.operands(operation)
            metadata = self.context.locations.metadata(operation.location)
            self.common = self._common(operation.attributes)
            self.name = ""
            if metadata is not None:
                self.common = self.common.with_metadata(metadata)
                self.name = identifier(metadata.op_name.rpartition("/")[2])
            self._operation(operation)
        raise HloError("this region does not return", self.span, (), "HLOC0402")

    def root(self, results: Sequence[Instruction]) -> None:
        """Make the results the root, a tuple unless there is exactly one."""
        self.common, self.name = NO_COMMON, ""
        self.computation.set_root(results[0] if len(results) == 1 else self.tuple(results))

    def operands(self, operation: Operation, count: int = -1) -> list[Instruction]:
        """Return the operands; checks that there are `count`, if given."""
        if count not in (-1, len(operation.operands)):
            self.fail(f"expected {count} operands, but found {len(operation.operands)}")
        return [self.value(name) for name in operation.operands]

    def value(self, name: str) -> Instruction:
        base, _, index = name.partition("#")
        elements = self.values.get(base)
        if elements is None:
            self.fail(f"value {base} is not defined here")
        if int(index or 0) >= len(elements):
            self.fail(f"value {base} has {len(elements)} elements")
        return elements[int(index or 0)]

    def fail(self, message: str, *notes: str) -> NoReturn:
        """Raise an error at the operation being converted."""
        raise HloError([Diagnostic(message, self.span, notes, "HLOC0402")])

    def unsupported(self, operation: Operation, why: str = "has no opcode in HLO") -> NoReturn:
        raise UnsupportedError(f"{operation.name} {why}", self.span, (), "HLOC0403")

    # ---- adding instructions

    def add(
        self,
        opcode: str,
        shape: Shape,
        operands: Sequence[Instruction] = (),
        called: Sequence[Computation] = (),
        **values: Any,
    ) -> Instruction:
        """Add an instruction with the place and metadata of the operation being converted."""
        row = OPCODES[opcode]
        if row.arity is not None and len(operands) != row.arity:
            self.fail(f"expected {row.arity} operands, but found {len(operands)}")
        self._check_values(row, values)
        attributes = row.attributes(**values) if row.attributes is not None else None
        return self.computation.add(
            row, shape, operands, attributes, called,
            name=legal_name(self.name) or opcode, common=self.common, span=self.span,
        )  # fmt: skip

    def _check_values(self, row: Opcode, values: dict[str, Any]) -> None:
        """Reject a missing attribute, and one of another kind than `row` declares."""
        for attribute in attribute_fields(row.attributes):
            if attribute.field not in values:
                if attribute.required:
                    self.fail(f"{row.name} needs an attribute for {attribute.name}")
                continue
            value = values[attribute.field]
            if value is not None and not _fits(attribute, value):
                self.fail(f"{value!r} is no value for {attribute.name} of {row.name}")

    def parameter(self, number: int, shape: Shape) -> Instruction:
        self.name = "Arg"
        return self.add("parameter", shape, number=number)

    def tuple(self, elements: Sequence[Instruction]) -> Instruction:
        return self.add("tuple", TupleShape(tuple([e.shape for e in elements])), elements)

    def elements(self, inst: Instruction) -> list[Instruction]:
        """Return the elements of a tuple by get-tuple-element."""
        if not isinstance(inst.shape, TupleShape):
            self.fail("expected several results, but found one")
        return [
            self.add("get-tuple-element", shape, (inst,), index=index)
            for index, shape in enumerate(inst.shape.elements)
        ]

    def results(self, operation: Operation, inst: Instruction) -> None:
        """Name the results of `operation`, the elements of `inst` if there are several."""
        found = [inst] if len(operation.result_types) == 1 else self.elements(inst)
        self.bind(operation, found)

    def bind(self, operation: Operation, found: list[Instruction]) -> None:
        """Give the results of `operation` the values `found`."""
        at = 0
        for name, count in operation.results:
            if name in self.values:
                self.fail(f"value {name} is defined twice")
            self.values[name] = found[at : at + count]
            at += count
        if operation.results and at != len(found):
            self.fail(f"{operation.name} has {len(found)} results, but {at} names")

    # ---- operations

    def _operation(self, operation: Operation) -> None:
        """Add one operation: by its own function, its row, or the opcode of the same name."""
        dialect, _, name = operation.name.rpartition(".")
        if dialect == "chlo":
            self._chlo(operation, name)
            return
        if dialect not in ("", "stablehlo", "mhlo", "func"):
            self.unsupported(operation, f"belongs to dialect {dialect}, which hloc cannot convert")
        special = self.context.special.get(name)
        if special is not None:
            special(self, operation)
            return
        row = CONVERSIONS.get(name)
        opcode = name.replace("_", "-")
        if row is None:
            if opcode not in OPCODES or any(
                f.required for f in attribute_fields(OPCODES[opcode].attributes)
            ):
                self.unsupported(operation)
            row = Conversion(opcode)
        self.results(operation, self._converted(operation, row))

    def _chlo(self, operation: Operation, name: str) -> None:
        if name == "top_k":
            k = operation.attributes.get("k")
            shape = self.result_shape(operation)
            inst = self.add("topk", shape, self.operands(operation), k=k, largest=True)
        elif name in CHLO:
            inst = self.add(CHLO[name], self.result_shape(operation), self.operands(operation))
        else:
            found = expanded(name, self.add, self.operands(operation))
            if found is None:
                self.unsupported(operation)
            inst = found
        self.results(operation, inst)

    def _converted(self, operation: Operation, row: Conversion) -> Instruction:
        """Add the opcode of `row` with the operation's operands, regions and attributes."""
        operands = self.checked_operands(operation)
        opcode = OPCODES[row.opcode]
        called = [self.region(region) for region in operation.regions]
        if len(called) != len(opcode.calls):
            self.fail(f"expected {len(opcode.calls)} regions, but found {len(called)}")
        shapes = [operand.shape for operand in operands]
        try:
            values = read_attributes(row, operation.attributes, shapes)
            if "dim_labels" in values:
                values["dim_labels"] = self._read("dim_labels", values["dim_labels"])
        except BadAttribute as fault:
            self.fail(f"{operation.name}: {fault}")
        return self.add(row.opcode, self.result_shape(operation), operands, called, **values)

    def _read(self, rule: str, text: str) -> Any:
        """Parse `text` by a rule of HLO's grammar."""
        try:
            return self.context.values.read(rule, text, 0)
        except HloError as error:
            self.fail(error.message)

    def checked_operands(self, operation: Operation, count: int = -1) -> list[Instruction]:
        """Return the operands; checks that their shapes are those that the text declares."""
        operands = self.operands(operation, count)
        for name, inst, declared in zip(
            operation.operands, operands, operation.operand_types, strict=False
        ):
            if not compatible(inst.shape, declared):
                self.fail(f"{name} is {inst.shape}, but the type says {declared}")
        return operands

    def array_shape(self, operation: Operation) -> ArrayShape:
        """Return the shape of the only result, which must be an array."""
        shape = self.result_shape(operation)
        if not isinstance(shape, ArrayShape):
            self.fail(f"expected a tensor as the result, but found {shape}")
        return shape

    def result_shape(self, operation: Operation) -> Shape:
        types = operation.result_types
        return types[0] if len(types) == 1 else TupleShape(tuple(types))

    # ---- regions

    def region(self, region: Region) -> Computation:
        """Return a region as a computation; it may capture constants only."""
        builder = self._inner("region")
        builder.common = NO_COMMON
        for number, (name, shape) in enumerate(region.parameters):
            builder.values[name] = [builder.parameter(number, shape)]
        for name in self.captured(region):
            self.fail(f"this region uses {name} from outside, which is not constant")
        builder.repeat_constants(self, region)
        builder.root(builder.operations(region))
        return builder.computation

    def carried(
        self, region: Region, names: Sequence[str], captured: Sequence[str], *, give_back: bool
    ) -> Computation:
        """Return a region of a loop or branch, with one parameter for all values.

        Args:
            region: the region; `names` are its own parameters.
            names: names of the values that are passed first.
            captured: names of captured values, which are passed after them.
            give_back: return the captured values after the results, as the body of a loop does.
        """
        builder = self._inner("region")
        builder.common, builder.span = NO_COMMON, self.span
        shapes = [shape for _, shape in region.parameters] if names else []
        shapes += [self.value(name).shape for name in captured]
        passed = builder.packed_parameter(shapes)
        for name, inst in zip([*names, *captured], passed, strict=True):
            builder.define(name, inst)
        builder.repeat_constants(self, region)
        results = builder.operations(region)
        if give_back:
            results += passed[len(names) :]
        builder.root(results)
        return builder.computation

    def _inner(self, name: str) -> BlockBuilder:
        computation = self.context.module.add_computation(name)
        return BlockBuilder(self.context, computation)

    def packed_parameter(self, shapes: Sequence[Shape]) -> list[Instruction]:
        """Add the parameter of a loop or branch and return the values in it."""
        if len(shapes) == 1:
            return [self.parameter(0, shapes[0])]
        parameter = self.parameter(0, TupleShape(tuple(shapes)))
        self.name = ""
        return self.elements(parameter)

    def define(self, name: str, inst: Instruction) -> None:
        """Bind `name`, which may be one of several results, to `inst`."""
        base, _, index = name.partition("#")
        found = self.values.setdefault(base, [])
        found.extend([inst] * (int(index or 0) + 1 - len(found)))
        found[int(index or 0)] = inst

    def packed(self, values: Sequence[Instruction]) -> Instruction:
        """Return the operand that passes `values` to a loop or branch."""
        return values[0] if len(values) == 1 else self.tuple(values)

    def captured(self, region: Region) -> list[str]:
        """Return the names that `region` captures, except constants."""
        return [n for n in free_names(region) if self.value(n).opcode.name != "constant"]

    def repeat_constants(self, outer: BlockBuilder, region: Region) -> None:
        """Add the constants that `region` captures."""
        for name in free_names(region):
            inst = outer.value(name)
            if inst.opcode.name == "constant":
                literal = inst.attributes.literal
                self.define(name, self.add("constant", inst.shape, literal=literal))

    # ---- attributes of all operations

    def _common(self, attributes: dict[str, Any]) -> CommonAttributes:
        found: dict[str, Any] = {}
        sharding = attributes.get("mhlo.sharding")
        if isinstance(sharding, str) and sharding:
            found["sharding"] = self._read("sharding", sharding)
        pairs = attributes.get("mhlo.frontend_attributes")
        if isinstance(pairs, dict) and pairs:
            found["frontend_attributes"] = tuple(
                sorted((key, quoted(str(value))) for key, value in pairs.items())
            )
        return replace(NO_COMMON, **found) if found else NO_COMMON
