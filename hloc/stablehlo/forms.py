"""The custom syntax of StableHLO's operations, as in the dialect's definitions.

After the operands come parts `key = value`; the table gives the attribute that a key
sets and the form of its value. Other operations are written in the generic form,
`"stablehlo.gather"(%a, %b) <{...}> : (...) -> ...`, which every operation has.
"""

from __future__ import annotations

from dataclasses import field

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """Custom syntax of one operation.

    Attributes:
        keys: keyword -> attribute, in the order they are printed.
        words: attributes written as bare words: `compare LT, %a, %b`.
        bracketed: True if the operands are in parentheses.
        types: how the types are printed: `function`, `(a, b) -> c`; `same`, one type if all are
            equal; `result`, only the type of the result. The reader accepts all of them.
    """

    keys: dict[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    bracketed: bool = False
    types: str = "function"


_ELEMENTWISE = (
    "abs add and atan2 cbrt ceil clamp convert cosine count_leading_zeros divide exponential"
    " exponential_minus_one floor imag log log_plus_one logistic maximum minimum multiply negate"
    " not or popcnt power real remainder round_nearest_afz round_nearest_even rsqrt shift_left"
    " shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor"
)
_PLAIN = (
    "bitcast_convert complex dynamic_gather dynamic_pad dynamic_reshape dynamic_update_slice"
    " is_finite optimization_barrier real_dynamic_slice reshape return select tuple"
)

FORMS: dict[str, Form] = {
    **{name: Form(types="same") for name in _ELEMENTWISE.split()},
    **{name: Form() for name in _PLAIN.split()},
    **{name: Form(types="result") for name in ("create_token", "partition_id", "replica_id")},
    "after_all": Form(types="same"),
    "broadcast_in_dim": Form({"dims": "broadcast_dimensions"}),
    "broadcast": Form({"sizes": "broadcast_sizes"}),
    "cholesky": Form({"lower": "lower"}, types="same"),
    "compare": Form(words=("comparison_direction", "compare_type")),
    "concatenate": Form({"dim": "dimension"}),
    "convolution": Form({"dim_numbers": "dimension_numbers", "window": ""}, bracketed=True),
    "dot": Form({"precision": "precision_config"}),
    "dot_general": Form(
        {
            "batching_dims": "",
            "contracting_dims": "",
            "precision": "precision_config",
            "algorithm": "algorithm",
        }
    ),
    "dynamic_broadcast_in_dim": Form({"dims": "broadcast_dimensions"}),
    "dynamic_iota": Form({"dim": "iota_dimension"}),
    "dynamic_slice": Form({"sizes": "slice_sizes"}),
    "fft": Form({"type": "fft_type", "length": "fft_length"}),
    "get_dimension_size": Form({"dim": "dimension"}),
    "iota": Form({"dim": "iota_dimension"}, types="result"),
    "pad": Form(
        {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"}
    ),
    "reduce_precision": Form({"format": ""}, types="same"),
    "reverse": Form({"dims": "dimensions"}, types="same"),
    "rng": Form({"distribution": "rng_distribution"}),
    "rng_bit_generator": Form({"algorithm": "rng_algorithm"}),
    "set_dimension_size": Form({"dim": "dimension"}),
    "top_k": Form({"k": "k"}, bracketed=True),
    "transpose": Form({"dims": "permutation"}),
}
"""Name without the dialect -> form. A key without an attribute has special syntax."""
