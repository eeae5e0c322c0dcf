"""The field of each attribute in `HloInstructionProto`: one table for both directions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from operator import attrgetter
from typing import Any

from hloc.formats.faults import BadMessage, bytes_of, name_of, number_of, text_of
from hloc.formats.proto_devices import fill_groups, groups_text
from hloc.formats.proto_messages import messages
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
from hloc.ir.attribute_fields import AttributeField, attribute_fields
from hloc.lazy_dataclass import dataclass
from hloc.ops import OPCODES
from hloc.shapes import ArrayShape, Shape


@dataclass(frozen=True, slots=True)
class Context:
    """What a codec may need besides the message.

    Attributes:
        opcode: name of the instruction's opcode.
        operands: shapes of the operands.
        grammar: parses a text by a rule of the grammar.
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


def _field(path: str, read: Callable[[Any], Any], written: Callable[[Any], Any]) -> Codec:
    """Return the codec of one field, with its conversion in both directions."""
    get = attrgetter(path)
    outer, _, name = path.rpartition(".")
    holder: Callable[[Any], Any] = attrgetter(outer) if outer else lambda inst: inst

    def write(inst: Any, value: Any, _context: Context) -> None:
        setattr(holder(inst), name, written(value))

    return Codec(lambda inst, _context: read(get(inst)), write)


def _scalar(path: str, absent: Any) -> Codec:
    """A number or flag; 0 in the message means `absent`."""
    return _field(path, lambda found: found or absent, lambda value: value or 0)


def _text(path: str, absent: str = "") -> Codec:
    return _field(path, lambda found: text_of(found) or absent, bytes_of)


def _enum(path: str, enum: str, absent: str | None = None) -> Codec:
    def read(number: int) -> str:
        return absent if number == 0 and absent is not None else name_of(enum, number)

    return _field(path, read, partial(number_of, enum))


def _ints(path: str, absent: tuple[int, ...] | None) -> Codec:
    get = attrgetter(path)

    def write(inst: Any, value: tuple[int, ...] | None, _context: Context) -> None:
        if value:
            get(inst).extend(value)

    return Codec(lambda inst, _context: tuple(get(inst)) or absent, write)


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


def _read_channel(inst: Any, _context: Context) -> int | None:
    """Return the channel; 0 means none, except with global device ids, which always have one."""
    return inst.channel_id or (0 if inst.use_global_device_ids else None)


def _read_pairs(inst: Any, _context: Context) -> tuple[tuple[int, int], ...]:
    return tuple((pair.source, pair.target) for pair in inst.source_target_pairs)


def _write_pairs(inst: Any, value: tuple[tuple[int, int], ...], _context: Context) -> None:
    for source, target in value:
        inst.source_target_pairs.add(source=source, target=target)


def _read_permute_sizes(inst: Any, context: Context) -> tuple[tuple[int, ...], ...]:
    """Split the flat list into one list of sizes per slice, each of the rank of operand 0."""
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


# ---------------------------------------------------------------- the table

_DOT = "dot_dimension_numbers."

_PLACES = {
    "index": "tuple_index",
    "lhs_batch_dims": _DOT + "lhs_batch_dimensions",
    "lhs_contracting_dims": _DOT + "lhs_contracting_dimensions",
    "lhs_ragged_dims": "lhs_ragged_dimensions",
    "rhs_batch_dims": _DOT + "rhs_batch_dimensions",
    "rhs_contracting_dims": _DOT + "rhs_contracting_dimensions",
    "rhs_group_dims": "rhs_group_dimensions",
    "slice_sizes": "gather_slice_sizes",
}
"""Attribute -> its field, if that has another name."""

_MESSAGES = {
    "cholesky": "cholesky_options.",
    "gather": "gather_dimension_numbers.",
    "ragged-dot": "ragged_dot_dimension_numbers.",
    "scatter": "scatter_dimension_numbers.",
    "triangular-solve": "triangular_solve_options.",
}
"""Opcode -> the message of its attributes that are not fields of the instruction."""

_ASSOCIATIVE = _field(
    "is_associative",
    lambda number: name_of("tri_state", number) == "true",
    lambda value: number_of("tri_state", "true" if value else "false"),
)
_SPECIAL: dict[str, Codec] = {
    "api_version": _enum("custom_call_api_version", "api_version", "API_VERSION_ORIGINAL"),
    "channel_id": Codec(_read_channel, _scalar("channel_id", None).write),
    "convolution_kind": _enum("conv_kind", "conv_kind"),
    "cross_program_prefetch_index": Codec(_read_prefetch, _write_prefetch),
    "dim_labels": Codec(read_dim_labels, fill_dim_labels),
    "direction": _text("comparison_direction"),
    "distribution": _enum("distribution", "distribution"),
    "domain": Codec(read_domain, fill_domain),
    "fft_type": _enum("fft_type", "fft_type"),
    "inferred_dimension": _one_int("dimensions", -1),
    "iota_dimension": _one_int("dimensions"),
    "is_associative": _ASSOCIATIVE,
    "kind": _text("fusion_kind"),
    "literal": Codec(read_custom_literal, fill_custom_literal),
    "operand_layout_constraints": Codec(_read_constraints, _write_constraints),
    "operand_precision": Codec(_read_precision, _write_precision),
    "outfeed_shape": Codec(_read_outfeed_shape, _write_outfeed_shape),
    "output_to_operand_aliasing": Codec(read_aliasing, fill_aliasing),
    "padding": Codec(read_padding, fill_padding),
    "padding_type": _enum("padding_type", "padding_type"),
    "replica_groups": Codec(_read_groups, fill_groups),
    "schedule": _enum("custom_call_schedule", "schedule"),
    "slice": Codec(read_slice, fill_slice),
    "source_target_pairs": Codec(_read_pairs, _write_pairs),
    "sparsity_config": Codec(read_sparsity, fill_sparsity),
    "transpose_a": _enum("triangular_solve_options.transpose_a", "transpose"),
    "type": Codec(_read_comparison, _write_comparison),
    "window": Codec(read_window, fill_window),
}
"""Attributes that are not a number, flag, text or list of numbers of one field."""

# Protos of before June 2026 have no flag, and their topk is stable; a stable one is never wrong.
_TOPK_IS_STABLE = Codec(lambda _inst, _context: True, _scalar("is_stable", False).write)
_PERMUTE_SIZES = Codec(_read_permute_sizes, _write_permute_sizes)
_DOT_ALGORITHM = _enum("precision_config.algorithm", "dot_algorithm")
_SPECIAL_OF_OPCODE: dict[tuple[str, str], Codec] = {
    ("collective-permute", "slice_sizes"): _PERMUTE_SIZES,
    ("collective-permute-start", "slice_sizes"): _PERMUTE_SIZES,
    ("convolution", "algorithm"): _DOT_ALGORITHM,
    ("dot", "algorithm"): _DOT_ALGORITHM,
    ("map", "dimensions"): _ints("dimensions", ()),
    ("scaled-dot", "algorithm"): _DOT_ALGORITHM,
    ("rng-bit-generator", "algorithm"): _enum("rng_algorithm", "rng_algorithm"),
    ("topk", "is_stable"): _TOPK_IS_STABLE,
}


@cache
def codecs_of(opcode: str) -> tuple[tuple[AttributeField, Codec], ...]:
    """Return the attributes of an opcode with their codecs."""
    return tuple(
        (
            field,
            _SPECIAL_OF_OPCODE.get((opcode, field.name))
            or _SPECIAL.get(field.name)
            or _plain(opcode, field),
        )
        for field in attribute_fields(OPCODES[opcode].attributes)
    )


def _plain(opcode: str, field: AttributeField) -> Codec:
    """Return the codec of a number, flag, text or list of numbers."""
    place = _PLACES.get(field.name, field.name)
    if all(row.name != place for row in messages()["HloInstructionProto"].values()):
        place = _MESSAGES.get(opcode, "") + place
    if field.kind == "bool":
        return _scalar(place, False)
    make, empty = _BY_KIND[field.kind]
    return make(place, empty if field.required else field.default)


_BY_KIND: dict[str, tuple[Callable[[str, Any], Codec], Any]] = {
    "float": (_scalar, 0.0),
    "int": (_scalar, 0),
    "int_list": (_ints, ()),
    "string": (_text, ""),
}
"""Kind of an attribute -> its codec, and the value of an absent one that has no default."""
