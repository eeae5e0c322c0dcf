"""Reader of the operations of StableHLO text that have a syntax of their own."""

from __future__ import annotations

from hloc.shapes import ArrayShape, Shape, TupleShape
from hloc.source import SourceFile
from hloc.stablehlo.cursor import STRING, unescaped
from hloc.stablehlo.forms import Form
from hloc.stablehlo.operation_reader import OperationReader
from hloc.stablehlo.tree import Operation, Region
from hloc.stablehlo.types import TYPE_START


class SpecialReader(OperationReader):
    """Reads all operations."""

    def __init__(self, source: SourceFile) -> None:
        super().__init__(source)
        self.special = {
            "call": self._call,
            "composite": self._composite,
            "constant": self._constant,
            "custom_call": self._custom_call,
            "get_tuple_element": self._get_tuple_element,
            "reduce": self._reduce,
            "slice": self._slice,
            "while": self._while,
        }

    def _constant(self, operation: Operation) -> None:
        """Read `{attributes} dense<...> : type`."""
        cursor = self.cursor
        if cursor.looking_at("("):
            self.generic(operation)
            return
        operation.attributes.update(self.attributes.optional_dictionary())
        start = cursor.at
        if not cursor.accept("dense<"):
            cursor.fail("expected dense<...>", start, cursor.at + 1)
        value = self.attributes.dense()
        operation.attributes["value"] = value
        operation.result_types = [value.shape]

    def _call(self, operation: Operation) -> None:
        """Read `@callee(%a) : (types) -> types`."""
        operation.attributes["callee"] = self.attributes.value()
        self._called(operation)

    def _custom_call(self, operation: Operation) -> None:
        """Read `@target(%a) {attributes} : (types) -> types`."""
        operation.attributes["call_target_name"] = self.cursor.symbol()
        self._called(operation)

    def _called(self, operation: Operation) -> None:
        operation.operands = self.cursor.items(self.cursor.value, "(", ")")
        operation.attributes.update(self.attributes.optional_dictionary())
        self.read_types(operation)

    def _composite(self, operation: Operation) -> None:
        """Read `"name" %a, %b {attributes} : types`."""
        cursor = self.cursor
        operation.attributes["name"] = unescaped(cursor.need(STRING, "a name in quotes")[1:-1])
        self.by_form(operation, Form())

    def _get_tuple_element(self, operation: Operation) -> None:
        """Read `%a[0] : (type) -> type`."""
        cursor = self.cursor
        operation.operands = [cursor.value()]
        cursor.expect("[")
        operation.attributes["index"] = cursor.integer()
        cursor.expect("]")
        operation.attributes.update(self.attributes.optional_dictionary())
        self.read_types(operation)

    def _slice(self, operation: Operation) -> None:
        """Read `%a [0:4, 1:8:2] : types`."""
        operation.operands = [self.cursor.value()]
        ranges = self.cursor.items(self._range, "[", "]")
        names = ("start_indices", "limit_indices", "strides")
        for position, name in enumerate(names):
            operation.attributes[name] = tuple([r[position] for r in ranges])
        operation.attributes.update(self.attributes.optional_dictionary())
        self.read_types(operation)

    def _range(self) -> tuple[int, int, int]:
        cursor = self.cursor
        start = cursor.integer()
        cursor.expect(":")
        limit = cursor.integer()
        return start, limit, cursor.integer() if cursor.accept(":") else 1

    def _reduce(self, operation: Operation) -> None:
        """Read `(%a init: %b), ... applies op across dimensions = [0] : types`, or a `reducer`."""
        cursor = self.cursor
        pairs = cursor.items(self._reduced)
        operation.operands = [a for a, _ in pairs] + [b for _, b in pairs]
        applied = cursor.word("an operation") if cursor.accept_word("applies") else ""
        for word in ("across", "dimensions"):
            if not cursor.accept_word(word):
                cursor.expected(f"{word!r}")
        cursor.expect("=")
        operation.attributes["dimensions"] = tuple(cursor.items(cursor.integer, "[", "]"))
        operation.attributes.update(self.attributes.optional_dictionary())
        self.read_types(operation)
        if applied:
            operation.regions = [_binary(applied, operation)]
            return
        if not cursor.accept_word("reducer"):
            cursor.expected("'reducer'")
        parameters: list[list[tuple[str, Shape]]] = []
        while cursor.looking_at("("):
            parameters.append(cursor.items(self.region_parameter, "(", ")"))
        if any(len(pair) != 2 for pair in parameters):
            cursor.fail("a reducer takes two values of each array")
        region = Region([pair[0] for pair in parameters] + [pair[1] for pair in parameters])
        self.block(region)
        operation.regions = [region]

    def _reduced(self) -> tuple[str, str]:
        cursor = self.cursor
        cursor.expect("(")
        array = cursor.value()
        if not cursor.accept_word("init"):
            cursor.expected("'init:'")
        cursor.expect(":")
        init = cursor.value()
        cursor.expect(")")
        return array, init

    def _while(self, operation: Operation) -> None:
        """Read `(%x = %a, ...) : types attributes {...} cond {...} do {...}`."""
        cursor = self.cursor
        pairs = cursor.items(self._carried, "(", ")")
        operation.operands = [value for _, value in pairs]
        shapes: list[Shape] = []
        if cursor.accept(":"):
            shapes = cursor.items(self.types.read) if cursor.peek(TYPE_START) else []
        if len(shapes) != len(pairs):
            cursor.fail(f"{len(pairs)} values, but {len(shapes)} types", operation.start, cursor.at)
        if cursor.accept_word("attributes"):
            operation.attributes.update(self.attributes.dictionary())
        operation.operand_types = operation.result_types = shapes
        parameters = [(name, shape) for (name, _), shape in zip(pairs, shapes, strict=True)]
        for word in ("cond", "do"):
            if not cursor.accept_word(word):
                cursor.expected(f"{word!r}")
            region = Region(list(parameters))
            self.block(region)
            operation.regions.append(region)

    def _carried(self) -> tuple[str, str]:
        name = self.cursor.value()
        self.cursor.expect("=")
        return name, self.cursor.value()


def _binary(name: str, operation: Operation) -> Region:
    """Return the reducer of an `applies` clause: operation `name` of two scalars."""
    shape = operation.result_types[0] if operation.result_types else TupleShape()
    scalar = ArrayShape(shape.dtype) if isinstance(shape, ArrayShape) else shape
    inner = Operation(name, ["%a", "%b"], {}, [], [scalar, scalar], [scalar], [("%r", 1)])
    last = Operation("stablehlo.return", ["%r"])
    for part in (inner, last):
        part.start, part.end = operation.start, operation.end
    return Region([("%a", scalar), ("%b", scalar)], [inner, last])
