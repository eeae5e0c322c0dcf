"""The field of each attribute in `HloInstructionProto`: one table for both directions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hloc.formats.faults import BadMessage, bytes_of, name_of, number_of, text_of
from hloc.formats.proto_devices import fill_groups, groups_text
from hloc.formats.proto_raw import (
    fill_aliasing,
    fill_custom_literal,
    fill_domain,
    fill_sparsity,
    read_aliasing,
    read_custom_literal,
    read_domain,
    read_sparsity,
)
from hloc.formats.proto_shapes import fill_shape, shape_of
from hloc.formats.proto_windows import (
    fill_dim_labels,
    fill_padding,
    fill_slice,
    fill_window,
    read_dim_labels,
    read_padding,
    read_slice,
    read_window,
)
from hloc.ir.attributes import AttributeField, attribute_fields
from hloc.lazy_dataclass import dataclass
from hloc.ops import OPCODES
from hloc.shapes import ArrayShape, Shape


@dataclass(frozen=True, slots=True)
class Context:
    """What a codec may need beside the message.

    Attributes:
        opcode: name of the instruction's opcode.
        operands: shapes of the operands.
        grammar: value of a text by grammar rule.
        payloads: the module's payloads.
    """

    opcode: str
    operands: tuple[Shape, ...]
    grammar: Callable[[str, str], Any]
    payloads: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Codec:
    """Reader and writer of one attribute of an instruction message."""

    read: Callable[[Any, Context], Any]
    write: Callable[[Any, Any, Context], None]


# ---------------------------------------------------------------- simple codecs


def _holder(inst: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        inst = getattr(inst, name)
    return inst


def _scalar(path: str, absent: Any = 0) -> Codec:
    """A number or flag; 0 in the message stands for `absent`."""
    *outer, name = path.split(".")
    where = tuple(outer)

    def read(inst: Any, _context: Context) -> Any:
        return getattr(_holder(inst, where), name) or absent

    def write(inst: Any, value: Any, _context: Context) -> None:
        setattr(_holder(inst, where), name, value or 0)

    return Codec(read, write)


def _flag(path: str) -> Codec:
    return _scalar(path, False)


def _text(path: str, absent: str = "") -> Codec:
    def read(inst: Any, _context: Context) -> str:
        return text_of(getattr(inst, path)) or absent

    def write(inst: Any, value: str, _context: Context) -> None:
        setattr(inst, path, bytes_of(value))

    return Codec(read, write)


def _ints(path: str, absent: tuple[int, ...] | None = ()) -> Codec:
    *outer, name = path.split(".")
    where = tuple(outer)

    def read(inst: Any, _context: Context) -> tuple[int, ...] | None:
        return tuple(getattr(_holder(inst, where), name)) or absent

    def write(inst: Any, value: tuple[int, ...] | None, _context: Context) -> None:
        if value:
            getattr(_holder(inst, where), name).extend(value)

    return Codec(read, write)


def _one_int(path: str, absent: int | None = None) -> Codec:
    """A list that has one entry; without `absent` it may not be empty."""

    def read(inst: Any, context: Context) -> int | None:
        values = getattr(inst, path)
        if len(values) > 1 or (not values and absent is None):
            raise BadMessage(f"{context.opcode} has one entry in {path}, not {len(values)}")
        return values[0] if values else absent

    def write(inst: Any, value: int, _context: Context) -> None:
        if value != absent:
            getattr(inst, path).append(value)

    return Codec(read, write)


def _enum(path: str, enum: str, absent: str | None = None) -> Codec:
    *outer, name = path.split(".")
    where = tuple(outer)

    def read(inst: Any, _context: Context) -> str:
        number = getattr(_holder(inst, where), name)
        return absent if number == 0 and absent is not None else name_of(enum, number)

    def write(inst: Any, value: str, _context: Context) -> None:
        setattr(_holder(inst, where), name, number_of(enum, value))

    return Codec(read, write)


# ---------------------------------------------------------------- special codecs


def _read_precision(inst: Any, _context: Context) -> tuple[str, ...]:
    found = tuple(name_of("precision", n) for n in inst.precision_config.operand_precision)
    return () if all(name == "default" for name in found) else found


def _write_precision(inst: Any, value: tuple[str, ...], context: Context) -> None:
    count = len(context.operands) if context.opcode == "custom-call" else 2
    names = value or ("default",) * count
    inst.precision_config.operand_precision.extend(number_of("precision", n) for n in names)


def _default_comparison(context: Context) -> str:
    shape = context.operands[0] if context.operands else None
    if not isinstance(shape, ArrayShape):
        return ""
    if shape.dtype.is_float or shape.dtype.is_complex:
        return "FLOAT"
    return "SIGNED" if shape.dtype.is_signed else "UNSIGNED"


def _read_comparison(inst: Any, context: Context) -> str:
    found = text_of(inst.comparison_type)
    return "" if found == _default_comparison(context) else found


def _write_comparison(inst: Any, value: str, context: Context) -> None:
    inst.comparison_type = bytes_of(value or _default_comparison(context))


def _read_constraints(inst: Any, _context: Context) -> tuple[Shape, ...] | None:
    if not inst.constrain_layout:
        return None
    return tuple(shape_of(shape) for shape in inst.operand_shapes_with_layout)


def _write_constraints(inst: Any, value: tuple[Shape, ...] | None, _context: Context) -> None:
    if value is not None:
        inst.constrain_layout = True
        for shape in value:
            fill_shape(inst.operand_shapes_with_layout.add(), shape)


def _read_outfeed_shape(inst: Any, _context: Context) -> Shape | None:
    return shape_of(inst.outfeed_shape) if inst.HasField("outfeed_shape") else None


def _write_outfeed_shape(inst: Any, value: Shape | None, _context: Context) -> None:
    if value is not None:
        fill_shape(inst.outfeed_shape, value)


def _read_groups(inst: Any, context: Context) -> Any:
    return context.grammar("replica_groups", groups_text(inst))


def _write_groups(inst: Any, value: Any, _context: Context) -> None:
    fill_groups(inst, value)


def _read_channel(inst: Any, _context: Context) -> int | None:
    """Return the channel; 0 is none, but global device ids are never without one."""
    return inst.channel_id or (0 if inst.use_global_device_ids else None)


def _write_channel(inst: Any, value: int | None, _context: Context) -> None:
    inst.channel_id = value or 0


def _read_pairs(inst: Any, _context: Context) -> tuple[tuple[int, int], ...]:
    return tuple((pair.source, pair.target) for pair in inst.source_target_pairs)


def _write_pairs(inst: Any, value: tuple[tuple[int, int], ...], _context: Context) -> None:
    for source, target in value:
        inst.source_target_pairs.add(source=source, target=target)


def _read_permute_sizes(inst: Any, context: Context) -> tuple[tuple[int, ...], ...]:
    """Cut the flat list into one list of sizes per slice, each of the rank of operand 0."""
    sizes = tuple(inst.dynamic_slice_sizes)
    shape = context.operands[0] if context.operands else None
    rank = shape.rank if isinstance(shape, ArrayShape) else 0
    if sizes and (not rank or len(sizes) % rank):
        raise BadMessage(f"{len(sizes)} slice sizes do not fit an operand of rank {rank}")
    return tuple(sizes[at : at + rank] for at in range(0, len(sizes), rank or 1))


def _write_permute_sizes(inst: Any, value: tuple[tuple[int, ...], ...], _context: Context) -> None:
    for sizes in value:
        inst.dynamic_slice_sizes.extend(sizes)


def _read_prefetch(inst: Any, _context: Context) -> int | None:
    if inst.HasField("cross_program_prefetch_index"):
        return int(inst.cross_program_prefetch_index)
    return 0 if inst.is_cross_program_prefetch else None


def _write_prefetch(inst: Any, value: int | None, _context: Context) -> None:
    if value is not None:
        if not -(2**31) <= value < 2**31:
            raise BadMessage(f"cross_program_prefetch_index {value} does not fit in 32 bits")
        inst.cross_program_prefetch_index = value


def _read_associative(inst: Any, _context: Context) -> bool:
    return name_of("tri_state", inst.is_associative) == "true"


def _write_associative(inst: Any, value: bool, _context: Context) -> None:
    inst.is_associative = number_of("tri_state", "true" if value else "false")


# ---------------------------------------------------------------- the table

_DOT = "dot_dimension_numbers."
_RAGGED = "ragged_dot_dimension_numbers."
_GATHER = "gather_dimension_numbers."
_SCATTER = "scatter_dimension_numbers."
_SOLVE = "triangular_solve_options."

_BY_NAME: dict[str, Codec] = {
    "api_version": _enum("custom_call_api_version", "api_version", "API_VERSION_ORIGINAL"),
    "async_execution_thread": _text("async_execution_thread", "main"),
    "batch_group_count": _scalar("batch_group_count", 1),
    "channel_id": Codec(_read_channel, _write_channel),
    "collapsed_slice_dims": _ints(_GATHER + "collapsed_slice_dims"),
    "constrain_layout": _flag("constrain_layout"),
    "convolution_kind": _enum("conv_kind", "conv_kind"),
    "cross_program_prefetch_index": Codec(_read_prefetch, _write_prefetch),
    "custom_call_has_side_effect": _flag("custom_call_has_side_effect"),
    "custom_call_target": _text("custom_call_target"),
    "delta": _scalar("delta"),
    "dim_labels": Codec(read_dim_labels, fill_dim_labels),
    "dimensions": _ints("dimensions"),
    "direction": _text("comparison_direction"),
    "distribution": _enum("distribution", "distribution"),
    "domain": Codec(read_domain, fill_domain),
    "dynamic_slice_sizes": _ints("dynamic_slice_sizes"),
    "epsilon": _scalar("epsilon", 0.0),
    "exponent_bits": _scalar("exponent_bits"),
    "feature_group_count": _scalar("feature_group_count", 1),
    "feature_index": _scalar("feature_index"),
    "fft_length": _ints("fft_length"),
    "fft_type": _enum("fft_type", "fft_type"),
    "index": _scalar("tuple_index"),
    "indices_are_sorted": _flag("indices_are_sorted"),
    "infeed_config": _text("infeed_config"),
    "inferred_dimension": _one_int("dimensions", -1),
    "input_batching_dims": _ints(_SCATTER + "input_batching_dims"),
    "inserted_window_dims": _ints(_SCATTER + "inserted_window_dims"),
    "iota_dimension": _one_int("dimensions"),
    "has_dynamic_root": _flag("has_dynamic_root"),
    "is_associative": Codec(_read_associative, _write_associative),
    "is_composite": _flag("is_composite"),
    "is_host_transfer": _flag("is_host_transfer"),
    "is_reverse": _flag("is_reverse"),
    "is_stable": _flag("is_stable"),
    "k": _scalar("k"),
    "kind": _text("fusion_kind"),
    "largest": _flag("largest"),
    "left_side": _flag(_SOLVE + "left_side"),
    "lhs_batch_dims": _ints(_DOT + "lhs_batch_dimensions"),
    "lhs_contracting_dims": _ints(_DOT + "lhs_contracting_dimensions"),
    "lhs_ragged_dims": _ints(_RAGGED + "lhs_ragged_dimensions"),
    "literal": Codec(read_custom_literal, fill_custom_literal),
    "lower": _flag(_SOLVE + "lower"),
    "mantissa_bits": _scalar("mantissa_bits"),
    "num_carries": _scalar("num_carries"),
    "offset_dims": _ints(_GATHER + "offset_dims"),
    "operand_batching_dims": _ints(_GATHER + "operand_batching_dims"),
    "operand_layout_constraints": Codec(_read_constraints, _write_constraints),
    "operand_precision": Codec(_read_precision, _write_precision),
    "outfeed_config": _text("outfeed_config"),
    "outfeed_shape": Codec(_read_outfeed_shape, _write_outfeed_shape),
    "output_to_operand_aliasing": Codec(read_aliasing, fill_aliasing),
    "padding": Codec(read_padding, fill_padding),
    "padding_type": _enum("padding_type", "padding_type"),
    "replica_groups": Codec(_read_groups, _write_groups),
    "rhs_batch_dims": _ints(_DOT + "rhs_batch_dimensions"),
    "rhs_contracting_dims": _ints(_DOT + "rhs_contracting_dimensions"),
    "rhs_group_dims": _ints(_RAGGED + "rhs_group_dimensions"),
    "scatter_dims_to_operand_dims": _ints(_SCATTER + "scatter_dims_to_operand_dims"),
    "scatter_indices_batching_dims": _ints(_SCATTER + "scatter_indices_batching_dims"),
    "schedule": _enum("custom_call_schedule", "schedule"),
    "slice": Codec(read_slice, fill_slice),
    "slice_sizes": _ints("gather_slice_sizes"),
    "source_target_pairs": Codec(_read_pairs, _write_pairs),
    "sparsity_config": Codec(read_sparsity, fill_sparsity),
    "start_index_map": _ints(_GATHER + "start_index_map"),
    "start_indices_batching_dims": _ints(_GATHER + "start_indices_batching_dims"),
    "transpose_a": _enum(_SOLVE + "transpose_a", "transpose"),
    "type": Codec(_read_comparison, _write_comparison),
    "unique_indices": _flag("unique_indices"),
    "unit_diagonal": _flag(_SOLVE + "unit_diagonal"),
    "update_window_dims": _ints(_SCATTER + "update_window_dims"),
    "use_global_device_ids": _flag("use_global_device_ids"),
    "window": Codec(read_window, fill_window),
}
# Protos of before June 2026 have no flag, and their topk is stable; a stable one is never wrong.
_TOPK_IS_STABLE = Codec(lambda _inst, _context: True, _flag("is_stable").write)
_PERMUTE_SIZES = Codec(_read_permute_sizes, _write_permute_sizes)
_RAGGED_DOT = _RAGGED + _DOT
_DOT_ALGORITHM = _enum("precision_config.algorithm", "dot_algorithm")
_BY_OPCODE: dict[tuple[str, str], Codec] = {
    ("all-to-all", "dimensions"): _ints("dimensions", None),
    ("cholesky", "lower"): _flag("cholesky_options.lower"),
    ("collective-permute", "slice_sizes"): _PERMUTE_SIZES,
    ("collective-permute-start", "slice_sizes"): _PERMUTE_SIZES,
    ("convolution", "algorithm"): _DOT_ALGORITHM,
    ("dot", "algorithm"): _DOT_ALGORITHM,
    ("scaled-dot", "algorithm"): _DOT_ALGORITHM,
    ("rng-bit-generator", "algorithm"): _enum("rng_algorithm", "rng_algorithm"),
    ("topk", "is_stable"): _TOPK_IS_STABLE,
    ("gather", "index_vector_dim"): _scalar(_GATHER + "index_vector_dim"),
    ("scatter", "index_vector_dim"): _scalar(_SCATTER + "index_vector_dim"),
    ("ragged-dot", "lhs_batch_dims"): _ints(_RAGGED_DOT + "lhs_batch_dimensions"),
    ("ragged-dot", "rhs_batch_dims"): _ints(_RAGGED_DOT + "rhs_batch_dimensions"),
    ("ragged-dot", "lhs_contracting_dims"): _ints(_RAGGED_DOT + "lhs_contracting_dimensions"),
    ("ragged-dot", "rhs_contracting_dims"): _ints(_RAGGED_DOT + "rhs_contracting_dimensions"),
}


@cache
def codecs_of(opcode: str) -> tuple[tuple[AttributeField, Codec], ...]:
    """Return the attributes of an opcode and where they stand."""
    return tuple(
        (field, _BY_OPCODE.get((opcode, field.name)) or _BY_NAME[field.name])
        for field in attribute_fields(OPCODES[opcode].attributes)
    )
