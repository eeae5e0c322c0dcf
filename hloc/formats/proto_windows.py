"""Windows, dimension labels, slices and paddings of instruction messages."""

from __future__ import annotations

from typing import Any

from hloc.formats.faults import BadMessage
from hloc.ir.attributes import (
    ConvolutionDimensions,
    PaddingDimension,
    SliceDimension,
    Window,
    WindowDimension,
)

_MAX_RANK = 64


def read_window(inst: Any, context: Any) -> Window | None:
    """Return the window; None if the message has none, or one that is not printed."""
    if not inst.HasField("window"):
        return None
    if not inst.window.dimensions and context.opcode != "custom-call":
        return None
    return Window(
        tuple(
            WindowDimension(
                d.size, d.stride, d.padding_low, d.padding_high, d.base_dilation or 1,
                d.window_dilation or 1, d.window_reversal,
            )
            for d in inst.window.dimensions
        )
    )  # fmt: skip


def fill_window(inst: Any, window: Window | None, context: Any) -> None:
    """Write the window; all opcodes except custom-call always have one."""
    if window is None and context.opcode == "custom-call":
        return
    inst.window.SetInParent()
    for d in window.dimensions if window is not None else ():
        inst.window.dimensions.add(
            size=d.size,
            stride=d.stride,
            padding_low=d.pad_low,
            padding_high=d.pad_high,
            base_dilation=d.base_dilation,
            window_dilation=d.window_dilation,
            window_reversal=d.reversal,
        )


def read_dim_labels(inst: Any, context: Any) -> ConvolutionDimensions | None:
    """Return the dimension labels, which the grammar checks."""
    if not inst.HasField("convolution_dimension_numbers"):
        return None
    found = inst.convolution_dimension_numbers
    lhs = _labels(
        "bf", (found.input_batch_dimension, found.input_feature_dimension),
        found.input_spatial_dimensions,
    )  # fmt: skip
    kernel = _labels(
        "io", (found.kernel_input_feature_dimension, found.kernel_output_feature_dimension),
        found.kernel_spatial_dimensions,
    )  # fmt: skip
    output = _labels(
        "bf", (found.output_batch_dimension, found.output_feature_dimension),
        found.output_spatial_dimensions,
    )  # fmt: skip
    labels: ConvolutionDimensions = context.grammar("dim_labels", f"{lhs}_{kernel}->{output}")
    return labels


def _labels(roles: str, places: tuple[int, int], spatial: Any) -> str:
    if len(spatial) > 10:
        raise BadMessage(f"a convolution has {len(spatial)} spatial dimensions, more than 10")
    letters = dict(zip([*places, *spatial], [*roles, *map(str, range(len(spatial)))], strict=True))
    if len(letters) != len(spatial) + 2 or min(letters) < 0 or max(letters) >= _MAX_RANK:
        raise BadMessage("a convolution uses a dimension twice, or one that does not exist")
    return "".join(letters.get(place, "?") for place in range(max(letters) + 1))


def fill_dim_labels(inst: Any, labels: ConvolutionDimensions | None, _context: Any) -> None:
    """Write the dimension labels."""
    if labels is None:
        return
    proto = inst.convolution_dimension_numbers
    proto.SetInParent()
    proto.input_batch_dimension = labels.input_batch
    proto.input_feature_dimension = labels.input_feature
    proto.input_spatial_dimensions.extend(labels.input_spatial)
    proto.kernel_input_feature_dimension = labels.kernel_input_feature
    proto.kernel_output_feature_dimension = labels.kernel_output_feature
    proto.kernel_spatial_dimensions.extend(labels.kernel_spatial)
    proto.output_batch_dimension = labels.output_batch
    proto.output_feature_dimension = labels.output_feature
    proto.output_spatial_dimensions.extend(labels.output_spatial)


def read_slice(inst: Any, _context: Any) -> tuple[SliceDimension, ...]:
    """Return start, limit and stride of every dimension."""
    return tuple(SliceDimension(d.start, d.limit, d.stride) for d in inst.slice_dimensions)


def fill_slice(inst: Any, dims: tuple[SliceDimension, ...], _context: Any) -> None:
    """Write start, limit and stride of every dimension."""
    for d in dims:
        inst.slice_dimensions.add(start=d.start, limit=d.limit, stride=d.stride)


def read_padding(inst: Any, _context: Any) -> tuple[PaddingDimension, ...]:
    """Return the padding of every dimension."""
    return tuple(
        PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding)
        for d in inst.padding_config.dimensions
    )


def fill_padding(inst: Any, dims: tuple[PaddingDimension, ...], _context: Any) -> None:
    """Write the padding of every dimension."""
    inst.padding_config.SetInParent()
    for d in dims:
        inst.padding_config.dimensions.add(
            edge_padding_low=d.low, edge_padding_high=d.high, interior_padding=d.interior
        )
