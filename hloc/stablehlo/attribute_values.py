"""Values of MLIR attributes: numbers, arrays, dictionaries, dense elements, `#stablehlo<...>`."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from hloc.dtypes import DType, component_of
from hloc.shapes import ArrayShape
from hloc.stablehlo.cursor import STRING, SYMBOL, WORD, Cursor
from hloc.stablehlo.tree import Dense, Record, Symbol
from hloc.stablehlo.types import TYPE_START, TypeReader

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)")
_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?")
_ELEMENT = re.compile(
    r"\s*(?:([\[\],()])|(-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|true|false))"
)
_STRUCTURE = re.compile(r"#(?:stablehlo|mhlo|chlo)\.?(\w*)<")
_ALIAS = re.compile(r"#[A-Za-z_][\w$.]*")
_CONVOLUTION = re.compile(r"\[[^\]]*\]\s*x\s*\[[^\]]*\]\s*->\s*\[[^\]]*\]")


class AttributeReader:
    """Reads attribute values at a cursor."""

    def __init__(self, cursor: Cursor, types: TypeReader) -> None:
        self.cursor = cursor
        self.types = types
        self.aliases: dict[str, Any] = {}

    # ---- dictionaries

    def dictionary(self) -> Record:
        """Return `{name = value, unit}`; the cursor is at the brace."""
        return self._record("{", "}", self._entry)

    def optional_dictionary(self) -> Record:
        """Return the next dictionary if there is one, or an empty one."""
        return self.dictionary() if self.cursor.looking_at("{") else Record()

    def _record(self, opening: str, closing: str, entry: Callable[[], tuple[str, Any]]) -> Record:
        """Read entries between brackets, separated by commas; keeps the text of the whole."""
        cursor = self.cursor
        start = cursor.at
        cursor.deeper()
        cursor.expect(opening)
        record = Record()
        while not cursor.looking_at(closing):
            at = cursor.at
            name, value = entry()
            if name in record:
                cursor.fail(f"attribute {name!r} appears twice", at, at + len(name))
            record[name] = value
            if not cursor.accept(","):
                break
        end = cursor.at
        cursor.expect(closing)
        cursor.depth -= 1
        record.text = cursor.text[start : end + len(closing)]
        return record

    def _entry(self) -> tuple[str, Any]:
        cursor = self.cursor
        name = cursor.string() if cursor.peek(STRING) else cursor.word("an attribute name")
        return name, self.value() if cursor.accept("=") else True

    # ---- values

    def value(self) -> Any:
        """Return the next attribute value; the type after a number is dropped."""
        cursor = self.cursor
        found = self.bare_value()
        if cursor.looking_at(":") and not cursor.looking_at("::"):
            cursor.accept(":")
            self.types_or_word()
        return found

    def types_or_word(self) -> None:
        """Skip the type of an attribute: `i64`, `f32`, `tensor<2xi64>`."""
        if self.cursor.peek(TYPE_START) and self.cursor.looking_at("tensor<"):
            self.types.read()
        elif self.cursor.looking_at("!"):
            self.cursor.accept("!")
            self.cursor.word("a type")
        else:
            self.cursor.word("a type")

    def bare_value(self) -> Any:
        """Return the next attribute value, which has no type after it."""
        cursor = self.cursor
        if cursor.peek(STRING):
            return cursor.string()
        if cursor.peek(SYMBOL):
            name = Symbol(cursor.symbol())
            while cursor.accept("::"):
                name = Symbol(cursor.symbol())
            return name
        if cursor.peek(_NUMBER):
            return self._number()
        if cursor.looking_at("["):
            cursor.deeper()
            values = tuple(cursor.items(self.value, "[", "]"))
            cursor.depth -= 1
            return values
        if cursor.looking_at("{"):
            return self.dictionary()
        if cursor.looking_at("#"):
            return self._dialect_value()
        for word, value in (("true", True), ("false", False), ("unit", True)):
            if cursor.accept_word(word):
                return value
        if cursor.accept("dense<"):
            return self.dense()
        if cursor.accept("array<"):
            return self._array()
        if cursor.looking_at("loc("):
            cursor.accept("loc")
            return cursor.balanced()
        if cursor.peek(TYPE_START):
            return self.types.read() if cursor.looking_at("tensor<") else cursor.word("a type")
        return cursor.expected("an attribute value")

    def _number(self) -> int | float:
        cursor = self.cursor
        text = cursor.peek(_FLOAT)
        if text:
            cursor.match(_FLOAT)
            return float(text)
        return cursor.integer()

    def _array(self) -> tuple[Any, ...]:
        """Return the values of `array<i64: 1, 2>`; the cursor is after `<`."""
        cursor = self.cursor
        cursor.word("an element type")
        values = tuple(cursor.items(self.bare_value, ":", ">")) if cursor.looking_at(":") else ()
        if not values:
            cursor.accept(">")
        return values

    def _dialect_value(self) -> Any:
        """Return `#stablehlo<precision HIGH>` as a word, `#stablehlo.gather<...>` as a record."""
        cursor = self.cursor
        start = cursor.at
        match = cursor.match(_STRUCTURE)
        if match is None:
            alias = cursor.need(_ALIAS, "an attribute")
            if alias in self.aliases:
                return self.aliases[alias]
            if cursor.looking_at("<"):
                cursor.balanced()
            return cursor.text[start : cursor.at].rstrip()
        if match[1] == "conv":
            numbers = self.convolution_numbers()
            cursor.expect(">")
            return numbers
        if not match[1] or not re.compile(r"\w+\s*=").match(cursor.text, cursor.at):
            words = [cursor.word()]
            while cursor.peek(WORD):
                words.append(cursor.word())
            cursor.expect(">")
            return words[-1]
        cursor.at = match.end() - 1
        return self.structure()

    def structure(self) -> Record:
        """Return `<name = value, ...>`."""
        return self._record("<", ">", self._entry)

    def convolution_numbers(self) -> str:
        """Return `[b, 0, f]x[0, i, o]->[b, 0, f]` as written."""
        return self.cursor.need(_CONVOLUTION, "dimensions such as [b, 0, f]x[0, i, o]->[b, 0, f]")

    # ---- dense elements

    def dense(self) -> Dense:
        """Return `dense<...> : tensor<...>`; the cursor is after `dense<`."""
        cursor = self.cursor
        start = cursor.at
        hexadecimal = cursor.string() if cursor.peek(STRING) else None
        end = cursor.text.find(">", start) if hexadecimal is None else cursor.at
        if end < 0:
            cursor.fail("these elements are not closed by '>'", start, start + 1)
        cursor.at = end
        cursor.expect(">")
        cursor.expect(":")
        at = cursor.at
        shape = self.types.read()
        if not isinstance(shape, ArrayShape) or shape.dynamic:
            cursor.fail("elements need a tensor type of fixed size", at, cursor.at)
        text = cursor.text[start:end]
        if hexadecimal is not None:
            return Dense(shape, self._from_bytes(hexadecimal, shape, start))
        return Dense(shape, self._elements(text, shape, start))

    def _from_bytes(self, text: str, shape: ArrayShape, start: int) -> np.ndarray[Any, Any]:
        try:
            data = bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            self.cursor.fail("expected hexadecimal digits", start, start + len(text))
        dtype = shape.dtype
        if dtype.is_pred and len(data) < shape.elements:  # eight elements in a byte
            bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
            data = bits[: shape.elements].tobytes()
        if len(data) == dtype.storage_bytes:
            return self._splat(np.frombuffer(data, dtype.numpy)[0], shape, start)
        if len(data) != shape.size_bytes:
            message = f"these are {len(data)} bytes, but {shape} needs {shape.size_bytes}"
            self.cursor.fail(message, start, start + len(text))
        return np.frombuffer(data, dtype.numpy).reshape(shape.dims)

    def _elements(self, text: str, shape: ArrayShape, start: int) -> np.ndarray[Any, Any]:
        """Return the array of `[[1, 2], [3, 4]]`, or of a splat."""
        numbers, sizes = self._numbers(text, start)
        dtype = shape.dtype
        width = 2 if dtype.is_complex else 1
        if not shape.elements and not numbers:
            return np.empty(shape.dims, dtype.numpy)
        try:
            flat = np.array([_element(n, dtype) for n in numbers], component_of(dtype).numpy)
        except (ValueError, OverflowError):
            self.cursor.fail(f"these elements do not fit {dtype}", start, start + len(text))
        if dtype.is_complex:
            flat = flat.view(dtype.numpy) if flat.size % 2 == 0 else flat
        if len(numbers) == width and not sizes:
            return self._splat(flat[0], shape, start)
        if sizes != shape.dims or flat.size != prod(shape.dims):
            message = f"the elements have sizes {list(sizes)}, but the type is {shape}"
            self.cursor.fail(message, start, start + len(text))
        return flat.reshape(shape.dims)

    def _splat(self, element: np.generic, shape: ArrayShape, start: int) -> np.ndarray[Any, Any]:
        """Return a splat, a view that takes no memory."""
        try:
            return np.broadcast_to(np.asarray(element, shape.dtype.numpy), shape.dims)
        except ValueError:
            self.cursor.fail(f"{shape} is too large", start, start + 1)

    def _numbers(self, text: str, start: int) -> tuple[list[str], tuple[int, ...]]:
        """Return the numbers in nested brackets and the sizes of the brackets."""
        numbers: list[str] = []
        sizes: list[int] = []
        counts: list[int] = []
        at = 0
        length = len(text.rstrip())
        while at < length:
            match = _ELEMENT.match(text, at)
            if match is None:
                self.cursor.fail("expected a number or a bracket", start + at, start + at + 1)
            at = match.end()
            token = match[1]
            if token == "[":
                if counts:
                    counts[-1] += 1
                counts.append(0)
            elif token == "]":
                if not counts:
                    self.cursor.fail("this bracket was not opened", start + at - 1, start + at)
                size, depth = counts.pop(), len(counts)
                if len(sizes) <= depth:
                    sizes.extend([-1] * (depth + 1 - len(sizes)))
                if sizes[depth] not in (-1, size):
                    self.cursor.fail("rows of different lengths", start + at - 1, start + at)
                sizes[depth] = size
            elif token is None:
                numbers.append(match[2])
                if counts:
                    counts[-1] += 1
            elif token == "(" and counts:
                counts[-1] += 1
                counts.append(-1 << 40)  # the two parts of a complex number
            elif token == ")" and counts:
                counts.pop()
        if counts:
            self.cursor.fail("this bracket is not closed", start, start + 1)
        return numbers, tuple(sizes)


def _element(text: str, dtype: DType) -> Any:
    """Return one number of `dtype`; hexadecimal text is the bits of a float."""
    if text in ("true", "false"):
        return text == "true"
    part = component_of(dtype)
    if not part.is_float:
        return int(text, 0)
    if "0x" in text:
        raw = int(text, 16).to_bytes(part.storage_bytes, "little")
        return np.frombuffer(raw, part.numpy)[0]
    return float(text)
