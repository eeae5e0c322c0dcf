"""Parser of StableHLO text: a module of functions, each a list of operations.

Operations come in MLIR's generic form or in the dialect's custom one (`forms.py`); a few have a
special syntax: `while`, `reduce`, `slice`, `call`, `custom_call`, `composite`, `constant`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hloc.near_names import near_name_notes
from hloc.shapes import ArrayShape, Shape, TupleShape
from hloc.source import SourceFile
from hloc.stablehlo.attribute_values import AttributeReader
from hloc.stablehlo.cursor import STRING, VALUE, WORD, Cursor, unescaped
from hloc.stablehlo.forms import FORMS, Form
from hloc.stablehlo.tree import Function, ModuleTree, Operation, Record, Region
from hloc.stablehlo.types import TYPE_START, TypeReader

_RESULTS = re.compile(r"%[\w$.-]+")
_COUNT = re.compile(r":(\d+)")
_LOCATION_ALIAS = re.compile(r"#loc\d*")
_ALIAS = re.compile(r"#[A-Za-z_][\w$.]*")
_FORMAT = re.compile(r"e(\d+)m(\d+)")
_DIALECTS = ("stablehlo.", "chlo.", "mhlo.")


def read_tree(source: SourceFile) -> ModuleTree:
    """Return the syntax tree of a StableHLO text.

    Raises:
        HloError: the text is invalid; the error has the place and what was expected there.
    """
    return _Reader(source).module()


class _Reader:
    def __init__(self, source: SourceFile) -> None:
        self.cursor = Cursor(source)
        self.types = TypeReader(self.cursor)
        self.attributes = AttributeReader(self.cursor, self.types)
        self.tree = ModuleTree()
        self.special: dict[str, Callable[[Operation], None]] = {
            "call": self._call,
            "composite": self._composite,
            "constant": self._constant,
            "custom_call": self._custom_call,
            "get_tuple_element": self._get_tuple_element,
            "reduce": self._reduce,
            "slice": self._slice,
            "while": self._while,
        }

    # ---- modules and functions

    def module(self) -> ModuleTree:
        cursor, tree = self.cursor, self.tree
        self._aliases()
        wrapped = cursor.accept_word("module") or cursor.accept_word("builtin.module")
        if wrapped:
            if cursor.looking_at("@"):
                tree.name = cursor.symbol()
            if cursor.accept_word("attributes"):
                tree.attributes = self.attributes.dictionary()
            cursor.expect("{")
        while not cursor.looking_at("}") and cursor.at < len(cursor.text):
            if cursor.accept_word("sdy.mesh"):
                cursor.fail("Shardy's meshes are not supported")
            self._function()
            self._aliases()
        if wrapped:
            cursor.expect("}")
        self._location()
        self._aliases()
        if cursor.at < len(cursor.text):
            cursor.expected("the end of the text")
        if not tree.functions:
            cursor.fail("the module has no function")
        return tree

    def _aliases(self) -> None:
        """Read `#loc3 = loc(...)` and `#name = attribute`, before and after the module."""
        cursor = self.cursor
        while cursor.looking_at("#"):
            if cursor.peek(_LOCATION_ALIAS):
                name = cursor.need(_ALIAS, "a location")
                cursor.expect("=")
                cursor.expect("loc")
                self.tree.locations[name] = cursor.balanced()[1:-1]
            else:
                name = cursor.need(_ALIAS, "an attribute alias")
                cursor.expect("=")
                self.attributes.aliases[name] = self.attributes.value()

    def _function(self) -> None:
        cursor = self.cursor
        start = cursor.at
        if not (cursor.accept_word("func.func") or cursor.accept_word("func")):
            cursor.expected("a function, func.func @name(...)")
        for visibility in ("public", "private", "nested"):
            cursor.accept_word(visibility)
        end = cursor.at
        name = cursor.symbol()
        if name in self.tree.functions:
            cursor.fail(f"function @{name} is defined twice", start, end)
        parameters = cursor.items(self._function_parameter, "(", ")")
        results: list[Shape] = []
        if cursor.accept("->"):
            if cursor.looking_at("("):
                results = cursor.items(self._function_result, "(", ")")
            else:
                results = [self.types.read()]
        if cursor.accept_word("attributes"):
            self.attributes.dictionary()
        body = Region([(name, shape) for name, shape, _ in parameters])
        if not cursor.looking_at("{"):
            cursor.fail(f"function @{name} has no body", start, end)
        self._block(body)
        self._location()
        self.tree.functions[name] = Function(
            name,
            body,
            [attributes for _, _, attributes in parameters],
            results,
            start,
            end,
        )

    def _function_parameter(self) -> tuple[str, Shape, Record]:
        name, shape = self._parameter()
        attributes = self.attributes.optional_dictionary()
        self._location()
        return name, shape, attributes

    def _function_result(self) -> Shape:
        shape = self.types.read()
        self.attributes.optional_dictionary()
        return shape

    def _parameter(self) -> tuple[str, Shape]:
        """Return name and type of `%arg0: tensor<f32>`."""
        name = self.cursor.value()
        self.cursor.expect(":")
        return name, self.types.read()

    def _region_parameter(self) -> tuple[str, Shape]:
        found = self._parameter()
        self._location()
        return found

    # ---- regions

    def _region(self) -> Region:
        """Return `{ ^bb0(%a: type): operations }`."""
        region = Region()
        self._block(region)
        return region

    def _block(self, region: Region) -> None:
        cursor = self.cursor
        cursor.deeper()
        cursor.expect("{")
        if cursor.looking_at("^"):
            cursor.need(re.compile(r"\^[\w$.-]+"), "a block label")
            if cursor.looking_at("("):
                region.parameters += cursor.items(self._region_parameter, "(", ")")
            cursor.expect(":")
        while not cursor.looking_at("}"):
            if cursor.looking_at("^"):
                cursor.fail("regions of more than one block are not supported")
            region.operations.append(self._operation())
        cursor.expect("}")
        cursor.depth -= 1

    # ---- operations

    def _operation(self) -> Operation:
        cursor = self.cursor
        operation = Operation("", start=cursor.at)
        if cursor.looking_at("%"):
            operation.results = cursor.items(self._result)
            cursor.expect("=")
        if cursor.looking_at('"'):
            operation.name = cursor.string()
            self._generic(operation)
        else:
            start = cursor.at
            operation.name = cursor.word("an operation")
            self._custom(operation, start)
        operation.end = cursor.last
        operation.location = self._location()
        return operation

    def _result(self) -> tuple[str, int]:
        name = self.cursor.need(_RESULTS, "a value such as %0")
        count = self.cursor.match(_COUNT)
        return name, int(count[1]) if count else 1

    def _generic(self, operation: Operation) -> None:
        """Read `(%a, %b) <{...}> ({region}, {region}) {...} : (types) -> types`."""
        cursor = self.cursor
        operation.operands = cursor.items(cursor.value, "(", ")")
        if cursor.accept("<"):
            operation.attributes.update(self.attributes.dictionary())
            cursor.expect(">")
        if cursor.looking_at("("):
            operation.regions = cursor.items(self._region, "(", ")")
        operation.attributes.update(self.attributes.optional_dictionary())
        cursor.expect(":")
        signature = self.types.function()
        if signature is None:
            cursor.expected("a function type, (operands) -> results")
        operation.operand_types, operation.result_types = signature

    def _custom(self, operation: Operation, start: int) -> None:
        name = operation.name
        for dialect in _DIALECTS:
            name = name.removeprefix(dialect)
        if operation.name in ("call", "func.call", "return", "func.return"):
            operation.name = name = operation.name.removeprefix("func.")
        reader = self.special.get(name)
        if reader is not None:
            reader(operation)
        elif name in FORMS or operation.name.startswith("chlo."):
            self._by_form(operation, FORMS.get(name, Form()))
        else:
            notes = near_name_notes(name, [*FORMS, *self.special])
            end = start + len(operation.name)
            self.cursor.fail(f"unknown operation {operation.name!r}", start, end, *notes)

    def _by_form(self, operation: Operation, form: Form) -> None:
        """Read operands and `key = value` parts in any order, attributes, and the type."""
        cursor = self.cursor
        words = list(form.words)
        bracketed = cursor.accept("(")
        while True:
            if cursor.peek(VALUE):
                operation.operands.append(cursor.value())
            elif cursor.peek(WORD) and words:
                operation.attributes[words.pop(0)] = cursor.word()
            elif cursor.peek(WORD):
                self._keyed(operation, form)
            elif bracketed and cursor.accept(")"):
                bracketed = False
                if cursor.looking_at(":") or cursor.looking_at("{"):
                    break
                continue
            else:
                break
            if bracketed and cursor.accept(")"):
                bracketed = False
                if cursor.peek(WORD):
                    continue
            if not cursor.accept(","):
                break
        operation.attributes.update(self.attributes.optional_dictionary())
        self._types(operation)

    def _keyed(self, operation: Operation, form: Form) -> None:
        cursor = self.cursor
        start = cursor.at
        key = cursor.word()
        if key not in form.keys:
            known = ", ".join(form.keys) or "none"
            cursor.fail(f"unknown part {key!r} of {operation.name}", start, start + len(key),
                        f"its parts are: {known}")  # fmt: skip
        cursor.expect("=")
        attributes = operation.attributes
        if key in ("batching_dims", "contracting_dims"):
            for side in ("lhs", "rhs"):
                attributes[f"{side}_{key}"] = tuple(cursor.items(cursor.integer, "[", "]"))
                if side == "lhs":
                    cursor.expect("x")
        elif key == "window":
            attributes.update(self.attributes.dictionary())
        elif key == "format":
            match = cursor.match(_FORMAT)
            if match is None:
                cursor.expected("a format such as e5m10")
            attributes["exponent_bits"], attributes["mantissa_bits"] = int(match[1]), int(match[2])
        elif key == "dim_numbers":
            attributes["dimension_numbers"] = self.attributes.convolution_numbers()
        elif cursor.looking_at("<"):
            attributes[form.keys[key]] = self.attributes.structure()
        elif cursor.peek(WORD) and not cursor.peek(re.compile(r"true\b|false\b|array<|dense<")):
            attributes[form.keys[key]] = cursor.word()
        elif cursor.looking_at("["):
            attributes[form.keys[key]] = tuple(cursor.items(self._listed, "[", "]"))
        else:
            attributes[form.keys[key]] = self.attributes.bare_value()

    def _listed(self) -> int | str:
        """Return an element of `[1, 0]` or `[HIGH, DEFAULT]`."""
        return self.cursor.word() if self.cursor.peek(WORD) else self.cursor.integer()

    def _types(self, operation: Operation) -> None:
        """Read `: (a, b) -> c`, `: a -> b`, or `: a, b`, whose last types are the results'."""
        cursor = self.cursor
        if operation.name in ("return", "stablehlo.return") and not cursor.looking_at(":"):
            return
        if not cursor.accept(":"):
            if operation.operands or operation.results:
                cursor.expected("':' and a type")
            return
        signature = self.types.function()
        if signature is not None:
            operation.operand_types, operation.result_types = signature
            return
        found = cursor.items(self.types.read)
        if cursor.accept("->"):
            operation.operand_types, operation.result_types = found, self.types.results()
            return
        count = sum(count for _, count in operation.results)
        if len(found) < count:
            cursor.fail(f"{count} results, but {len(found)} types", operation.start, cursor.at)
        operation.result_types = found[len(found) - count :]

    def _location(self) -> str:
        """Return the contents of `loc(...)` if it is next, else ""."""
        if not self.cursor.looking_at("loc("):
            return ""
        self.cursor.at += 3
        return self.cursor.balanced()[1:-1]

    # ---- operations with special syntax

    def _constant(self, operation: Operation) -> None:
        """Read `{attributes} dense<...> : type`."""
        cursor = self.cursor
        if cursor.looking_at("("):
            self._generic(operation)
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
        self._types(operation)

    def _composite(self, operation: Operation) -> None:
        """Read `"name" %a, %b {attributes} : types`."""
        cursor = self.cursor
        operation.attributes["name"] = unescaped(cursor.need(STRING, "a name in quotes")[1:-1])
        self._by_form(operation, Form())

    def _get_tuple_element(self, operation: Operation) -> None:
        """Read `%a[0] : (type) -> type`."""
        cursor = self.cursor
        operation.operands = [cursor.value()]
        cursor.expect("[")
        operation.attributes["index"] = cursor.integer()
        cursor.expect("]")
        operation.attributes.update(self.attributes.optional_dictionary())
        self._types(operation)

    def _slice(self, operation: Operation) -> None:
        """Read `%a [0:4, 1:8:2] : types`."""
        operation.operands = [self.cursor.value()]
        ranges = self.cursor.items(self._range, "[", "]")
        names = ("start_indices", "limit_indices", "strides")
        for position, name in enumerate(names):
            operation.attributes[name] = tuple([r[position] for r in ranges])
        operation.attributes.update(self.attributes.optional_dictionary())
        self._types(operation)

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
        self._types(operation)
        if applied:
            operation.regions = [_binary(applied, operation)]
            return
        if not cursor.accept_word("reducer"):
            cursor.expected("'reducer'")
        parameters: list[list[tuple[str, Shape]]] = []
        while cursor.looking_at("("):
            parameters.append(cursor.items(self._region_parameter, "(", ")"))
        if any(len(pair) != 2 for pair in parameters):
            cursor.fail("a reducer takes two values of each array")
        region = Region([pair[0] for pair in parameters] + [pair[1] for pair in parameters])
        self._block(region)
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
            self._block(region)
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
