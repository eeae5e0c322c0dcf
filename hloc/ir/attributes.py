"""Values of attributes as frozen types."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, NamedTuple

from hloc.lazy_dataclass import dataclass
from hloc.shapes import Shape, ShapeIndex


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window; `reversal` runs the window backwards."""

    size: int
    stride: int = 1
    pad_low: int = 0
    pad_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """`window={size=3x3 stride=2x2 pad=0_1x0_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x1}`."""

    dimensions: tuple[WindowDimension, ...] = ()

    def __str__(self) -> str:
        dims = self.dimensions
        if not dims:
            return "{}"
        parts = ["size=" + "x".join(str(d.size) for d in dims)]
        if any(d.stride != 1 for d in dims):
            parts.append("stride=" + "x".join(str(d.stride) for d in dims))
        if any(d.pad_low or d.pad_high for d in dims):
            parts.append("pad=" + "x".join(f"{d.pad_low}_{d.pad_high}" for d in dims))
        if any(d.base_dilation != 1 for d in dims):
            parts.append("lhs_dilate=" + "x".join(str(d.base_dilation) for d in dims))
        if any(d.window_dilation != 1 for d in dims):
            parts.append("rhs_dilate=" + "x".join(str(d.window_dilation) for d in dims))
        if any(d.reversal for d in dims):
            parts.append("rhs_reversal=" + "x".join(str(int(d.reversal)) for d in dims))
        return "{" + " ".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class ConvolutionDimensions:
    """`dim_labels=b01f_01io->b01f`: the role of each dimension.

    `text` keeps the labels as they are printed; unused dimensions are written `?`.
    """

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """`[start:limit:stride]` of one dimension."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """`low_high_interior` of one dimension; low and high may be negative, which trims."""

    low: int
    high: int
    interior: int = 0


@dataclass(frozen=True, slots=True)
class RawText:
    """A value kept as written, with only its outer form checked."""

    text: str

    def __str__(self) -> str:
        return self.text


class Metadata(NamedTuple):
    """Where an instruction came from in the user's program (format reference, 10.6).

    A large module has thousands: 0.5 us each as a named tuple, 1.5 as a frozen dataclass.
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    profile_type: tuple[int, ...] = ()
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = 0
    metadata_payload: str = ""


@dataclass(frozen=True, slots=True)
class CommonAttributes:
    """Attributes that every opcode may have (format reference, section 11).

    `frontend_attributes` are sorted pairs of key and value text as printed (quoted or `{...}`).
    """

    sharding: Any = None
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    statistics: RawText | None = None
    parameter_replication: tuple[bool, ...] = ()
    result_accuracy: RawText | None = None
    origin: RawText | None = None
    metadata: Metadata | None = None
    backend_config: str | None = None

    @property
    def is_placed(self) -> bool:
        """The metadata has a line of the user's program."""
        found = self.metadata
        return found is not None and bool(found.stack_frame_id or found.source_file)

    def with_metadata(self, metadata: Metadata | None) -> CommonAttributes:
        """Return these attributes with another `metadata`."""
        return replace(self, metadata=metadata)

    def placed_at(self, other: CommonAttributes) -> CommonAttributes:
        """Return these attributes with the line of `other`, if they have none."""
        place = other.metadata
        if place is None or self.is_placed or not other.is_placed:
            return self
        return self.with_metadata(
            (self.metadata or Metadata())._replace(
                source_file=place.source_file,
                source_line=place.source_line,
                stack_frame_id=place.stack_frame_id,
            )
        )


NO_COMMON = CommonAttributes()


@dataclass(frozen=True, slots=True)
class Alias:
    """One entry of `input_output_alias`: an output leaf may live in a parameter's buffer."""

    output_index: ShapeIndex
    parameter: int
    parameter_index: ShapeIndex
    must: bool = False


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """`entry_computation_layout={(shapes)->shape}`."""

    parameters: tuple[Shape, ...]
    result: Shape


@dataclass(frozen=True, slots=True)
class ModuleConfig:
    """The attributes of the `HloModule` line (format reference, section 5).

    `entry_layout` None means the layouts of the entry computation's parameters and root.
    """

    is_scheduled: bool = False
    aliases: tuple[Alias, ...] = ()
    buffer_donors: tuple[tuple[int, ShapeIndex], ...] = ()
    alias_passthrough_params: bool = False
    entry_layout: EntryLayout | None = None
    propagate_sharding_to_parameters: tuple[bool, ...] = (False,)
    propagate_sharding_to_output: tuple[bool, ...] = (False,)
    replica_count: int = 1
    num_partitions: int = 1
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    origin_recovery_table: RawText | None = None
    debug_attributes: RawText | None = None


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A range of source text; file and function are indices in their tables, from 1."""

    file_name_id: int
    function_name_id: int
    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A location and the frame that called it; parent 1 means none, 2 means frame 1."""

    file_location_id: int
    parent_frame_id: int


@dataclass(frozen=True, slots=True)
class StackFrames:
    """The four tables after the header (format reference, section 6); entry N is at N - 1."""

    file_names: tuple[str, ...] = ()
    function_names: tuple[str, ...] = ()
    file_locations: tuple[FileLocation, ...] = ()
    frames: tuple[StackFrame, ...] = ()
