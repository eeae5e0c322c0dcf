"""Operations of StableHLO and opcodes of HLO: one row for each pair, used in both directions.

An operation without a row and without attributes is the opcode of the same
name (`log_plus_one` is `log-plus-one`). Those whose structure differs, such as `while`, `call` and
`constant`, are converted by functions in `special_operations.py` and `special_instructions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, Shape
from hloc.stablehlo import codecs
from hloc.stablehlo.codecs import integers
from hloc.stablehlo.tree import Record

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversion:
    """One operation and its opcode.

    Attributes:
        opcode: name in HLO.
        fields: attribute of StableHLO -> attribute of HLO, values unchanged except by `VALUES`.
        read: from StableHLO's attributes and the operands' shapes to further attributes of HLO.
        write: from an instruction to further attributes of StableHLO.
    """

    opcode: str
    fields: dict[str, str] = field(default_factory=dict)
    read: Callable[[Attributes, Sequence[Shape]], Attributes] | None = None
    write: Callable[[Instruction], Attributes] | None = None


def _one(value: Any) -> tuple[int, ...]:
    return (int(value),)


def _first(value: tuple[int, ...]) -> int:
    return value[0]


VALUES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "all_gather_dim": (_one, _first),
    "broadcast_dimensions": (integers, tuple),
    "channel_handle": (codecs.channel, lambda found: Record(handle=found, type=1)),
    "dimension": (_one, _first),
    "dimensions": (integers, tuple),
    "fft_length": (integers, tuple),
    "permutation": (integers, tuple),
    "precision_config": (codecs.precisions, codecs.precision_words),
    "algorithm": (codecs.algorithm, codecs.algorithm_record),
    "replica_groups": (codecs.groups, lambda value: codecs.matrix(value.lists())),
    "rng_algorithm": (lambda word: f"rng_{word.lower()}", lambda word: word[4:].upper()),
    "rng_distribution": (lambda word: f"rng_{word.lower()}", lambda word: word[4:].upper()),
    "scatter_dimension": (_one, _first),
    "slice_sizes": (integers, tuple),
    "source_target_pairs": (codecs.rows, codecs.matrix),
}
"""Attribute of StableHLO -> reader and writer of a value that differs from HLO's."""


# ---------------------------------------------------------------- attributes of single operations


def _array(shapes: Sequence[Shape], index: int) -> ArrayShape:
    """Return the shape of an operand, which must exist and be a tensor."""
    shape = shapes[index] if index < len(shapes) else None
    if not isinstance(shape, ArrayShape):
        raise codecs.BadAttribute(f"operand {index} must be a tensor")
    return shape


def _named(group: str, names: dict[str, str]) -> tuple[Any, Any]:
    """Return reader and writer of `group = #stablehlo.kind<...>` with lists named as in `names`."""

    def read(attributes: Attributes, _shapes: Sequence[Shape]) -> Attributes:
        record = attributes.get(group)
        if not isinstance(record, Record):
            raise codecs.BadAttribute(f"{group} is missing")
        empty: dict[str, Any] = {"index_vector_dim": 0}
        return {hlo: record.get(name, empty.get(name, ())) for name, hlo in names.items()}

    def write(inst: Instruction) -> Attributes:
        return {group: Record({n: getattr(inst.attributes, hlo) for n, hlo in names.items()})}

    return read, write


_GATHER = {
    name: name
    for name in (
        "offset_dims", "collapsed_slice_dims", "operand_batching_dims",
        "start_indices_batching_dims", "start_index_map", "index_vector_dim",
    )
}  # fmt: skip
_SCATTER = {
    name: name
    for name in (
        "update_window_dims", "inserted_window_dims", "input_batching_dims",
        "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim",
    )
}  # fmt: skip
_DOT = {
    f"{side}_{long}_dimensions": f"{side}_{short}_dims"
    for side in ("lhs", "rhs")
    for long, short in (("batching", "batch"), ("contracting", "contracting"))
}


def _read_dot(attributes: Attributes, _shapes: Sequence[Shape]) -> Attributes:
    record = attributes.get("dot_dimension_numbers", {})
    found = {}
    for long, short in _DOT.items():
        bare = long.replace("dimensions", "dims")
        found[short] = tuple(record.get(long, attributes.get(bare, ())))
    return found


def _read_plain_dot(_attributes: Attributes, shapes: Sequence[Shape]) -> Attributes:
    lhs = _array(shapes, 0)
    return {"lhs_contracting_dims": (lhs.rank - 1,), "rhs_contracting_dims": (0,)}


def _read_slice(attributes: Attributes, _shapes: Sequence[Shape]) -> Attributes:
    starts, limits = integers(attributes["start_indices"]), integers(attributes["limit_indices"])
    strides = integers(attributes.get("strides", (1,) * len(starts)))
    ranges = zip(starts, limits, strides, strict=True)
    return {"slice": tuple(SliceDimension(*r) for r in ranges)}


def _write_slice(inst: Instruction) -> Attributes:
    dims = inst.attributes.slice
    return {
        "start_indices": tuple(d.start for d in dims),
        "limit_indices": tuple(d.limit for d in dims),
        "strides": tuple(d.stride for d in dims),
    }


_PAD = ("edge_padding_low", "edge_padding_high", "interior_padding")


def _read_pad(attributes: Attributes, _shapes: Sequence[Shape]) -> Attributes:
    parts = zip(*(integers(attributes[name]) for name in _PAD), strict=True)
    return {"padding": tuple(PaddingDimension(*part) for part in parts)}


def _write_pad(inst: Instruction) -> Attributes:
    dims = inst.attributes.padding
    values = [(d.low, d.high, d.interior) for d in dims]
    return {name: tuple(v[i] for v in values) for i, name in enumerate(_PAD)}


def _read_sort(attributes: Attributes, shapes: Sequence[Shape]) -> Attributes:
    first = _array(shapes, 0)
    dimension = attributes.get("dimension", -1)
    return {"dimensions": (dimension + first.rank if dimension < 0 else dimension,)}


def _write_sort(inst: Instruction) -> Attributes:
    return {"dimension": inst.attributes.dimensions[0]}


def _read_compare(attributes: Attributes, _shapes: Sequence[Shape]) -> Attributes:
    kind = attributes.get("compare_type", "")
    return {"type": kind if kind == "TOTALORDER" else ""}


def _write_compare(inst: Instruction) -> Attributes:
    kind = inst.attributes.type
    return {"compare_type": kind} if kind else {}


def _read_reduce_window(attributes: Attributes, _shapes: Sequence[Shape]) -> Attributes:
    return {"window": codecs.window(attributes, integers(attributes["window_dimensions"]))}


def _read_select_and_scatter(attributes: Attributes, shapes: Sequence[Shape]) -> Attributes:
    first = _array(shapes, 0)
    sizes = integers(attributes.get("window_dimensions", (1,) * first.rank))
    return {"window": codecs.window(attributes, sizes)}


def _write_window(inst: Instruction) -> Attributes:
    return codecs.window_attributes(inst.attributes.window)


def _write_select_and_scatter(inst: Instruction) -> Attributes:
    found = _write_window(inst)
    return {name: found[name] for name in ("window_dimensions", "window_strides", "padding")}


def _read_convolution(attributes: Attributes, shapes: Sequence[Shape]) -> Attributes:
    """Leave `dim_labels` as text: the caller parses it by HLO's grammar."""
    labels = codecs.dim_labels(str(attributes["dimension_numbers"]))
    rhs = _array(shapes, 1)
    kernel = labels.split("_", 1)[-1].split("->")[0]
    spatial = [kernel.find(str(n)) for n in range(rhs.rank - 2)]
    if len(kernel) != rhs.rank or -1 in spatial:
        raise codecs.BadAttribute(f"the labels {labels} do not fit a kernel of rank {rhs.rank}")
    sizes = [rhs.dims[dim] for dim in spatial]
    return {"window": codecs.window(attributes, sizes), "dim_labels": labels}


def _write_convolution(inst: Instruction) -> Attributes:
    attributes = inst.attributes
    found: Attributes = {"dimension_numbers": codecs.convolution_numbers(attributes.dim_labels)}
    if attributes.window is not None:
        parts = codecs.window_attributes(attributes.window)
        found |= {
            "window_strides": parts["window_strides"],
            "padding": parts["padding"],
            "lhs_dilation": parts["base_dilations"],
            "rhs_dilation": parts["window_dilations"],
            "window_reversal": tuple(d.reversal for d in attributes.window.dimensions),
        }
    return found


def _read_all_to_all(attributes: Attributes, _shapes: Sequence[Shape]) -> Attributes:
    if attributes["split_dimension"] != attributes["concat_dimension"]:
        raise codecs.BadAttribute("split_dimension and concat_dimension differ")
    return {"dimensions": (attributes["split_dimension"],)}


_CHANNEL = {"channel_handle": "channel_id"}
_GROUPS = {"replica_groups": "replica_groups", **_CHANNEL}
_GLOBAL = {**_GROUPS, "use_global_device_ids": "use_global_device_ids"}
_NORMALIZATION = {"epsilon": "epsilon", "feature_index": "feature_index"}

CONVERSIONS: dict[str, Conversion] = {
    "all_gather": Conversion("all-gather", {"all_gather_dim": "dimensions", **_GLOBAL}),
    "all_reduce": Conversion("all-reduce", _GLOBAL),
    "all_to_all": Conversion("all-to-all", _GROUPS, _read_all_to_all),
    "batch_norm_grad": Conversion("batch-norm-grad", _NORMALIZATION),
    "batch_norm_inference": Conversion("batch-norm-inference", _NORMALIZATION),
    "batch_norm_training": Conversion("batch-norm-training", _NORMALIZATION),
    "broadcast_in_dim": Conversion("broadcast", {"broadcast_dimensions": "dimensions"}),
    "cholesky": Conversion("cholesky", {"lower": "lower"}),
    "collective_broadcast": Conversion("collective-broadcast", _GROUPS),
    "collective_permute": Conversion(
        "collective-permute", {"source_target_pairs": "source_target_pairs", **_CHANNEL}
    ),
    "compare": Conversion(
        "compare", {"comparison_direction": "direction"}, _read_compare, _write_compare
    ),
    "concatenate": Conversion("concatenate", {"dimension": "dimensions"}),
    "convolution": Conversion(
        "convolution",
        {
            "feature_group_count": "feature_group_count",
            "batch_group_count": "batch_group_count",
            "precision_config": "operand_precision",
        },
        _read_convolution,
        _write_convolution,
    ),
    "dot": Conversion("dot", {"precision_config": "operand_precision"}, _read_plain_dot),
    "dot_general": Conversion(
        "dot",
        {"precision_config": "operand_precision", "algorithm": "algorithm"},
        _read_dot,
        _named("dot_dimension_numbers", _DOT)[1],
    ),
    "dynamic_slice": Conversion("dynamic-slice", {"slice_sizes": "dynamic_slice_sizes"}),
    "fft": Conversion("fft", {"fft_type": "fft_type", "fft_length": "fft_length"}),
    "gather": Conversion(
        "gather",
        {"slice_sizes": "slice_sizes", "indices_are_sorted": "indices_are_sorted"},
        *_named("dimension_numbers", _GATHER),
    ),
    "get_dimension_size": Conversion("get-dimension-size", {"dimension": "dimensions"}),
    "iota": Conversion("iota", {"iota_dimension": "iota_dimension"}),
    "map": Conversion("map", {"dimensions": "dimensions"}),
    "pad": Conversion("pad", {}, _read_pad, _write_pad),
    "reduce": Conversion("reduce", {"dimensions": "dimensions"}),
    "reduce_precision": Conversion(
        "reduce-precision", {"exponent_bits": "exponent_bits", "mantissa_bits": "mantissa_bits"}
    ),
    "reduce_scatter": Conversion("reduce-scatter", {"scatter_dimension": "dimensions", **_GLOBAL}),
    "reduce_window": Conversion("reduce-window", {}, _read_reduce_window, _write_window),
    "reverse": Conversion("reverse", {"dimensions": "dimensions"}),
    "rng_bit_generator": Conversion("rng-bit-generator", {"rng_algorithm": "algorithm"}),
    "scatter": Conversion(
        "scatter",
        {"indices_are_sorted": "indices_are_sorted", "unique_indices": "unique_indices"},
        *_named("scatter_dimension_numbers", _SCATTER),
    ),
    "select_and_scatter": Conversion(
        "select-and-scatter", {}, _read_select_and_scatter, _write_select_and_scatter
    ),
    "set_dimension_size": Conversion("set-dimension-size", {"dimension": "dimensions"}),
    "slice": Conversion("slice", {}, _read_slice, _write_slice),
    "sort": Conversion("sort", {"is_stable": "is_stable"}, _read_sort, _write_sort),
    "transpose": Conversion("transpose", {"permutation": "dimensions"}),
    "triangular_solve": Conversion(
        "triangular-solve",
        {name: name for name in ("left_side", "lower", "unit_diagonal", "transpose_a")},
    ),
}
"""Name without the dialect -> conversion."""

OPERATION_OF = {row.opcode: name for name, row in CONVERSIONS.items() if name != "dot"}
"""Opcode -> name of its operation."""

CHLO = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atanh": "atanh",
    "cosh": "cosh", "erf": "erf", "sinh": "sinh", "tan": "tan", "top_k": "topk",
}  # fmt: skip
"""Operations of the CHLO dialect that are opcodes of HLO."""


def read_attributes(row: Conversion, attributes: Attributes, shapes: Sequence[Shape]) -> Attributes:
    """Return the HLO attributes of an operation.

    Raises:
        BadAttribute: an attribute is missing, invalid, or has no counterpart.
    """
    found: Attributes = {}
    for name, hlo in row.fields.items():
        if name not in attributes:
            continue
        read = VALUES[name][0] if name in VALUES else None
        found[hlo] = attributes[name] if read is None else read(attributes[name])
    try:
        return found | (row.read(attributes, shapes) if row.read else {})
    except KeyError as missing:
        raise codecs.BadAttribute(f"attribute {missing} is missing") from None


def write_attributes(name: str, inst: Instruction) -> Attributes:
    """Return the attributes of operation `name` for `inst`, without unset ones."""
    row = CONVERSIONS[name]
    found: Attributes = {}
    for mlir, hlo in row.fields.items():
        value = getattr(inst.attributes, hlo)
        if value is None or (value == "" and mlir == "algorithm"):
            continue
        write = VALUES[mlir][1] if mlir in VALUES else None
        found[mlir] = value if write is None else write(value)
    return found | (row.write(inst) if row.write else {})
