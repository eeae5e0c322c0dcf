"""Callbacks of values of particular opcodes: windows, dim_labels, slices, padding ..."""

from __future__ import annotations

from typing import Any

from hloc.ir.attributes import (
    ConvolutionDimensions,
    PaddingDimension,
    RawText,
    SliceDimension,
    Window,
    WindowDimension,
)
from hloc.near_names import did_you_mean
from hloc.parser.value_tools import BadValue, index_text, int_of, of_pair, once


class OpcodeValueCallbacks:
    """Attributes of convolution, slice, pad, fusion and others."""

    def window_field(self, children: list[Any]) -> tuple[str, str]:
        return str(children[0]), str(children[1])

    def window(self, children: list[Any]) -> Window:
        return window_of(dict(once(children)))

    def dim_labels(self, children: list[Any]) -> ConvolutionDimensions:
        return convolution_dimensions(str(children[0]))

    def slice_dim(self, children: list[Any]) -> SliceDimension:
        return SliceDimension(*(int_of(token) for token in children))

    def padding(self, children: list[Any]) -> tuple[PaddingDimension, ...]:
        return padding_of(str(children[0]))

    def accuracy_mode(self, children: list[Any]) -> RawText | None:
        mode = str(children[0]).lower()
        if mode not in ("default", "highest"):
            raise BadValue(f"result_accuracy mode is default or highest, not {children[0]}")
        return None if mode == "default" else RawText(f"{{mode={mode}}}")

    tolerance = of_pair()

    def accuracy_tolerance(self, children: list[Any]) -> RawText:
        fields = dict(once(children))
        if extra := [key for key in fields if key not in ("atol", "rtol", "ulps")]:
            raise BadValue(f"unknown tolerance {extra[0]}; it has atol, rtol and ulps")
        atol, rtol, ulps = (fields.get(key, 0) for key in ("atol", "rtol", "ulps"))
        return RawText(f"{{tolerance={{atol={atol:g},rtol={rtol:g},ulps={ulps}}}}}")

    def operand_alias(self, children: list[Any]) -> str:
        index, operand, operand_index = children
        return f"{index_text(index)}: ({int_of(operand)}, {index_text(operand_index)})"

    def output_to_operand_aliasing(self, children: list[Any]) -> RawText | None:
        return RawText("{" + ", ".join(children) + "}") if children else None


WINDOW_FIELDS = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")


def padding_of(text: str) -> tuple[PaddingDimension, ...]:
    """Return the padding that a text of the terminal PAD spells."""
    return tuple(PaddingDimension(*map(int, dim.split("_"))) for dim in text.split("x"))


def window_of(fields: dict[str, str]) -> Window:
    """Return the window of `fields`, as `size` and `3x3`.

    Raises:
        BadValue: an unknown field, or fields of different rank.
    """
    for key in fields:
        if key not in WINDOW_FIELDS:
            raise BadValue(f"unknown window field {key}{did_you_mean(key, WINDOW_FIELDS)}")
    if not fields:
        return Window()
    if "size" not in fields:
        raise BadValue("a window needs size=")
    sizes = _by_x(fields["size"])
    rank = len(sizes)

    def numbers(key: str, default: int) -> list[int]:
        found = _by_x(fields[key]) if key in fields else [default] * rank
        if len(found) != rank:
            raise BadValue(f"window {key} has {len(found)} entries, but size has {rank}")
        return found

    pads = fields.get("pad", "x".join(["0_0"] * rank)).split("x")
    if len(pads) != rank or any(pad.count("_") != 1 for pad in pads):
        raise BadValue(f"window pad needs low_high for each of the {rank} dimensions of size")
    low, high = zip(*(map(int, pad.split("_")) for pad in pads), strict=True)
    columns = (
        sizes, numbers("stride", 1), low, high, numbers("lhs_dilate", 1), numbers("rhs_dilate", 1),
        map(bool, numbers("rhs_reversal", 0)),
    )  # fmt: skip
    return Window(tuple(WindowDimension(*row) for row in zip(*columns, strict=True)))


def _by_x(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split("x")]
    except ValueError:
        raise BadValue(f"expected numbers joined with 'x' but found {text}") from None


def convolution_dimensions(text: str) -> ConvolutionDimensions:
    """Return the dimensions that a text of the terminal DIM_LABELS spells.

    Raises:
        BadValue: a dimension is missing or repeated.
    """
    left, _, output = text.partition("->")
    lhs, _, kernel = left.partition("_")
    spatial = sum(c.isdigit() for c in lhs)
    for group, roles in ((lhs, "bf"), (kernel, "io"), (output, "bf")):
        digits = [c for c in group if c.isdigit()]
        others = [c for c in group if not c.isdigit() and c != "?"]
        if sorted(digits) != [str(i) for i in range(spatial)]:
            raise BadValue(
                f"dim_labels {text}: '{group}' needs each of {spatial} spatial dimensions once"
            )
        if sorted(others) != sorted(roles):
            raise BadValue(
                f"dim_labels {text}: '{group}' needs '{roles[0]}' and '{roles[1]}' once each"
            )

    def where(group: str) -> tuple[int, ...]:
        return tuple(group.index(str(i)) for i in range(spatial))

    return ConvolutionDimensions(
        lhs.index("b"), lhs.index("f"), where(lhs),
        kernel.index("i"), kernel.index("o"), where(kernel),
        output.index("b"), output.index("f"), where(output),
        f"{lhs.rstrip('?')}_{kernel.rstrip('?')}->{output.rstrip('?')}",
    )  # fmt: skip
