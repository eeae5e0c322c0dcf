"""Reader of the operations of StableHLO text, and of the regions in which they stand.

Operations come in MLIR's generic form or in the dialect's custom one (`forms.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hloc.near_names import near_name_notes
from hloc.shapes import Shape
from hloc.source import SourceFile
from hloc.stablehlo.attribute_values import AttributeReader
from hloc.stablehlo.cursor import VALUE, WORD, Cursor
from hloc.stablehlo.forms import FORMS, Form
from hloc.stablehlo.tree import Operation, Region
from hloc.stablehlo.types import TypeReader

_RESULTS = re.compile(r"%[\w$.-]+")
_COUNT = re.compile(r":(\d+)")
_FORMAT = re.compile(r"e(\d+)m(\d+)")
_DIALECTS = ("stablehlo.", "chlo.", "mhlo.")


class OperationReader:
    """Reads operations and regions.

    Attributes:
        special: readers of the operations with a syntax of their own, by name.
    """

    special: dict[str, Callable[[Operation], None]]

    def __init__(self, source: SourceFile) -> None:
        self.cursor = Cursor(source)
        self.types = TypeReader(self.cursor)
        self.attributes = AttributeReader(self.cursor, self.types)

    # ---- regions

    def _region(self) -> Region:
        """Return `{ ^bb0(%a: type): operations }`."""
        region = Region()
        self.block(region)
        return region

    def block(self, region: Region) -> None:
        cursor = self.cursor
        cursor.deeper()
        cursor.expect("{")
        if cursor.looking_at("^"):
            cursor.need(re.compile(r"\^[\w$.-]+"), "a block label")
            if cursor.looking_at("("):
                region.parameters += cursor.items(self.region_parameter, "(", ")")
            cursor.expect(":")
        while not cursor.looking_at("}"):
            if cursor.looking_at("^"):
                cursor.fail("regions of more than one block are not supported")
            region.operations.append(self._operation())
        cursor.expect("}")
        cursor.depth -= 1

    def parameter(self) -> tuple[str, Shape]:
        """Return name and type of `%arg0: tensor<f32>`."""
        name = self.cursor.value()
        self.cursor.expect(":")
        return name, self.types.read()

    def region_parameter(self) -> tuple[str, Shape]:
        found = self.parameter()
        self.location()
        return found

    def location(self) -> str:
        """Return the contents of `loc(...)` if it is next, else ""."""
        if not self.cursor.looking_at("loc("):
            return ""
        self.cursor.at += 3
        return self.cursor.balanced()[1:-1]

    # ---- operations

    def _operation(self) -> Operation:
        cursor = self.cursor
        operation = Operation("", start=cursor.at)
        if cursor.looking_at("%"):
            operation.results = cursor.items(self._result)
            cursor.expect("=")
        if cursor.looking_at('"'):
            operation.name = cursor.string()
            self.generic(operation)
        else:
            start = cursor.at
            operation.name = cursor.word("an operation")
            self._custom(operation, start)
        operation.end = cursor.last
        operation.location = self.location()
        return operation

    def _result(self) -> tuple[str, int]:
        name = self.cursor.need(_RESULTS, "a value such as %0")
        count = self.cursor.match(_COUNT)
        return name, int(count[1]) if count else 1

    def generic(self, operation: Operation) -> None:
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
            self.by_form(operation, FORMS.get(name, Form()))
        else:
            notes = near_name_notes(name, [*FORMS, *self.special])
            end = start + len(operation.name)
            self.cursor.fail(f"unknown operation {operation.name!r}", start, end, *notes)

    def by_form(self, operation: Operation, form: Form) -> None:
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
        self.read_types(operation)

    def _keyed(self, operation: Operation, form: Form) -> None:
        """Read one `key = value` of a custom form into the attributes of the generic form."""
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

    def read_types(self, operation: Operation) -> None:
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
