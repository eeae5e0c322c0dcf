"""Values of attributes, MLIR to HLO and back: precision, replica groups, windows, algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.ir.attributes import ConvolutionDimensions, Window, WindowDimension
from hloc.ir.replica_groups import GroupLists
from hloc.stablehlo.tree import Dense, Record


class BadAttribute(Exception):
    """An invalid attribute; `str()` says which and why."""


# ---------------------------------------------------------------- numbers


def integers(value: Any) -> tuple[int, ...]:
    """Return `array<i64: 1, 2>` or `dense<[1, 2]> : tensor<2xi64>` as a tuple."""
    if isinstance(value, Dense):
        return tuple(int(n) for n in value.values.reshape(-1))
    if isinstance(value, tuple) and all(isinstance(n, int) for n in value):
        return value
    raise BadAttribute(f"expected a list of integers, but found {value!r}")


def rows(value: Any) -> tuple[tuple[int, ...], ...]:
    """Return `dense<[[0, 1], [2, 3]]>` as rows; one number is the element of all."""
    if not isinstance(value, Dense) or value.values.ndim != 2:
        raise BadAttribute("expected a dense matrix of integers")
    return tuple(tuple(int(n) for n in row) for row in value.values)


def matrix(lists: Sequence[Sequence[int]]) -> np.ndarray[Any, Any]:
    """Return rows as a matrix of s64; short rows are filled with -1, as StableHLO does."""
    width = max((len(row) for row in lists), default=0)
    filled = [[*row, *[-1] * (width - len(row))] for row in lists]
    return np.array(filled, np.int64).reshape(len(lists), width)


# ---------------------------------------------------------------- words


def precisions(value: Any) -> tuple[str, ...]:
    """Return `[HIGH, DEFAULT]` in HLO's form: lower case, `()` when all are the default."""
    found = tuple(str(word).lower() for word in value)
    return () if all(word == "default" for word in found) else found


def precision_words(value: tuple[str, ...]) -> tuple[str, ...]:
    """Return HLO's precisions in StableHLO's form: one for each of two operands."""
    return tuple(word.upper() for word in value) or ("DEFAULT", "DEFAULT")


_BF16 = ("bf16", "bf16", "f32")
_TF32 = ("tf32", "tf32", "f32")
_ALGORITHMS: dict[str, tuple[str, str, str, int, bool]] = {
    "dot_f16_f16_f16": ("f16", "f16", "f16", 1, False),
    "dot_f16_f16_f32": ("f16", "f16", "f32", 1, False),
    "dot_bf16_bf16_bf16": ("bf16", "bf16", "bf16", 1, False),
    "dot_bf16_bf16_f32": (*_BF16, 1, False),
    "dot_bf16_bf16_f32_x3": (*_BF16, 3, False),
    "dot_bf16_bf16_f32_x6": (*_BF16, 6, False),
    "dot_bf16_bf16_f32_x9": (*_BF16, 9, False),
    "dot_tf32_tf32_f32": (*_TF32, 1, False),
    "dot_tf32_tf32_f32_x3": (*_TF32, 3, False),
    "dot_f32_f32_f32": ("f32", "f32", "f32", 1, False),
    "dot_f64_f64_f64": ("f64", "f64", "f64", 1, False),
    "dot_any_f8_any_f8_f32": ("f8E5M2", "f8E5M2", "f32", 1, False),
    "dot_any_f8_any_f8_f32_fast_accum": ("f8E5M2", "f8E5M2", "f32", 1, True),
}
"""Algorithm -> types of lhs, rhs, sum; products per element; imprecise accumulation allowed."""

_COMPONENTS = {1: 1, 3: 2, 6: 3, 9: 3}
"""Products per element -> number of parts of each factor."""


def algorithm(value: Any) -> str:
    """Return HLO's name of a dot algorithm, "" for none."""
    if not isinstance(value, Record):
        return ""
    types = [str(value.get(f"{name}_type", "")) for name in (
        "lhs_precision", "rhs_precision", "accumulation")]  # fmt: skip
    if all(name.startswith("f8") for name in types[:2]):
        types[:2] = ["f8E5M2", "f8E5M2"]
    key = (*types, value.get("num_primitive_operations"), value.get("allow_imprecise_accumulation"))
    for name, row in _ALGORITHMS.items():
        if row == key:
            return name
    raise BadAttribute(f"HLO has no dot algorithm {value.text}")


def algorithm_record(name: str) -> Record:
    """Return the parts of an algorithm of HLO."""
    lhs, rhs, total, products, imprecise = _ALGORITHMS[name]
    return Record(
        lhs_precision_type=lhs,
        rhs_precision_type=rhs,
        accumulation_type=total,
        lhs_component_count=_COMPONENTS[products],
        rhs_component_count=_COMPONENTS[products],
        num_primitive_operations=products,
        allow_imprecise_accumulation=imprecise,
    )


# ---------------------------------------------------------------- devices


def groups(value: Any) -> GroupLists:
    """Return replica groups; -1 fills short groups."""
    return GroupLists(tuple(tuple(n for n in row if n >= 0) for row in rows(value)))


def channel(value: Any) -> int | None:
    """Return the id of a channel handle."""
    return int(value["handle"]) if isinstance(value, Record) and value.get("handle") else None


# ---------------------------------------------------------------- windows


def window(attributes: dict[str, Any], sizes: Sequence[int]) -> Window:
    """Return the window of `sizes` that the attributes of a windowed operation describe."""
    rank = len(sizes)

    def each(*names: str, default: int = 1) -> tuple[int, ...]:
        for name in names:
            if name in attributes:
                values = integers(attributes[name])
                if len(values) != rank:
                    raise BadAttribute(f"{name} has {len(values)} values for {rank} dimensions")
                return values
        return (default,) * rank

    pads = padding_pairs(attributes.get("padding", attributes.get("pad")), rank)
    parts = zip(
        sizes,
        each("window_strides", "stride"),
        pads,
        each("base_dilations", "lhs_dilation", "lhs_dilate"),
        each("window_dilations", "rhs_dilation", "rhs_dilate"),
        each("window_reversal", "reverse", default=0),
        strict=True,
    )
    return Window(
        tuple(
            WindowDimension(size, stride, low, high, base, dilation, bool(reversal))
            for size, stride, (low, high), base, dilation, reversal in parts
        )
    )


def padding_pairs(value: Any, rank: int) -> tuple[tuple[int, int], ...]:
    """Return low and high padding of each dimension; None is no padding."""
    if value is None:
        return ((0, 0),) * rank
    if isinstance(value, Dense):
        pairs = rows(value)
    elif isinstance(value, tuple):
        pairs = tuple(integers(pair) for pair in value)
    else:
        raise BadAttribute(f"expected pairs of integers as padding, but found {value!r}")
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise BadAttribute(f"padding needs two numbers for each of {rank} dimensions")
    return tuple((low, high) for low, high in pairs)


def window_attributes(found: Window) -> dict[str, Any]:
    """Return the attributes that `window` reads, under the names of reduce_window."""
    dims = found.dimensions
    return {
        "window_dimensions": tuple(d.size for d in dims),
        "window_strides": tuple(d.stride for d in dims),
        "base_dilations": tuple(d.base_dilation for d in dims),
        "window_dilations": tuple(d.window_dilation for d in dims),
        "padding": matrix([(d.pad_low, d.pad_high) for d in dims]),
    }


def dim_labels(text: str) -> str:
    """Return `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]` as HLO writes it: `b01f_01io->b01f`."""
    return (
        "".join(text.split()).replace("]x[", "_").replace(",", "").strip("[]").replace("]->[", "->")
    )


def convolution_numbers(labels: ConvolutionDimensions) -> str:
    """Return the labels in StableHLO's form."""
    sides, output = str(labels).split("->")
    lhs, rhs = sides.split("_")
    text = ["[" + ", ".join(side) + "]" for side in (lhs, rhs, output)]
    return f"{text[0]}x{text[1]}->{text[2]}"
