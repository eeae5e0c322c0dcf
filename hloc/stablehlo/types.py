"""MLIR types as shapes: `tensor<8x128xf32>` is `f32[8,128]`."""

from __future__ import annotations

import re

from hloc.dtypes import DTYPES, DType
from hloc.shapes import TOKEN_SHAPE, UNBOUNDED, ArrayShape, Shape, TupleShape
from hloc.stablehlo.cursor import Cursor

TYPE_START = re.compile(r"tensor<|tuple<|!|\(|complex<|memref<|(?:i|ui|si|f|bf|tf)\d|index\b")
_TENSOR = re.compile(r"tensor<((?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*)>")
_DIMENSIONS = re.compile(r"(?:(?:\d+|\?)x)*")
_BOUNDS = re.compile(
    r"#(?:stablehlo|mhlo)\.(?:bounds|type_extensions)<(?:bounds\s*=\s*\[)?([^\]>]*)"
)
_INTEGER = re.compile(r"(i|si|ui)(\d+)")
_FLOAT = re.compile(r"(?:f|bf)\d+\w*")
_COMPLEX = {"complex<f32>": "c64", "complex<f64>": "c128"}


def element_type(text: str) -> DType | None:
    """Return the element type for MLIR's `text`, or None: `i1` is pred, `ui8` is u8."""
    text = text.strip()
    match = _INTEGER.fullmatch(text)
    if match:
        name = ("u" if match[1] == "ui" else "s") + match[2]
        return DTYPES.get("pred" if text == "i1" else name)
    if text == "index":
        return DTYPES["s64"]
    name = _COMPLEX.get(text.replace(" ", ""), text.lower())
    return DTYPES.get(name) if name in _COMPLEX.values() or _FLOAT.fullmatch(name) else None


def element_text(dtype: DType) -> str:
    """Return MLIR's text of an element type: `u8` is `ui8`, `f8e4m3fn` is `f8E4M3FN`."""
    if dtype.is_pred:
        return "i1"
    if dtype.is_complex:
        return "complex<f32>" if dtype.name == "c64" else "complex<f64>"
    if dtype.is_signed:
        return f"i{dtype.bits}"
    return f"ui{dtype.bits}" if dtype.is_unsigned else dtype.name[:2] + dtype.name[2:].upper()


def type_text(shape: Shape) -> str:
    """Return the MLIR type of a shape without tuples: `f32[8,<=4]` has a bound."""
    assert isinstance(shape, ArrayShape)
    if shape.dtype.name == "token":
        return "!stablehlo.token"
    sizes = "".join("?x" if shape.is_dynamic(d) else f"{n}x" for d, n in enumerate(shape.dims))
    text = sizes + element_text(shape.dtype)
    if any(shape.is_dynamic(d) and n != UNBOUNDED for d, n in enumerate(shape.dims)):
        bounds = (
            str(n) if shape.is_dynamic(d) and n != UNBOUNDED else "?"
            for d, n in enumerate(shape.dims)
        )  # fmt: skip
        text += f", #stablehlo.bounds<{', '.join(bounds)}>"
    return f"tensor<{text}>"


class TypeReader:
    """Parses types, each distinct text of a tensor once."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._known: dict[str, ArrayShape] = {}

    def read(self) -> Shape:
        """Return the next type."""
        cursor = self.cursor
        start = cursor.at
        match = cursor.match(_TENSOR)
        if match is not None:
            text = match[1]
            if text not in self._known:
                self._known[text] = self._tensor(text, start)
            return self._known[text]
        if cursor.accept("tuple<"):
            cursor.deeper()
            elements = cursor.items(self.read, closing=">")
            cursor.depth -= 1
            return TupleShape(tuple(elements))
        for token in ("!stablehlo.token", "!mhlo.token"):
            if cursor.accept(token):
                return TOKEN_SHAPE
        cursor.expected("a type such as tensor<4xf32>")

    def function(self) -> tuple[list[Shape], list[Shape]] | None:
        """Return operand and result types of `(a, b) -> c`; None if no parenthesis is next."""
        if not self.cursor.accept("("):
            return None
        operands = self.cursor.items(self.read, closing=")")
        self.cursor.expect("->")
        return operands, self.results()

    def results(self) -> list[Shape]:
        """Return the types of results: one, or several in parentheses."""
        if self.cursor.accept("("):
            return self.cursor.items(self.read, closing=")")
        return [self.read()]

    def _tensor(self, text: str, start: int) -> ArrayShape:
        """Return the shape that stands between `tensor<` and `>`.

        `?` is dynamic; an encoding `bounds = [...]` gives its largest size.
        """
        parts, _, encoding = text.partition(",")
        parts = parts.strip()
        match = _DIMENSIONS.match(parts)
        assert match is not None
        dtype = element_type(parts[match.end() :])
        if dtype is None:
            name = parts[match.end() :]
            words = (
                "quantized types are not supported" if "quant" in name else "expected a number type"
            )
            self.cursor.fail(f"unknown element type {name!r}: {words}", start, start + len(text))
        written = match[0].split("x")[:-1]
        sizes = tuple([UNBOUNDED if size == "?" else int(size) for size in written])
        bounds = _BOUNDS.search(encoding)
        if bounds is not None:
            limits = [b.strip() for b in bounds[1].split(",")]
            if len(limits) != len(sizes) or not all(b == "?" or b.isdigit() for b in limits):
                self.cursor.fail("expected one bound per dimension", start, start + len(text))
            sizes = tuple(
                int(limit) if limit != "?" else size
                for size, limit in zip(sizes, limits, strict=True)
            )
        return ArrayShape(dtype, sizes, dynamic=tuple([size == "?" for size in written]))
