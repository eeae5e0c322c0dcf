"""Numbers of enum values in XLA's messages, by their names in the text.

Source: the message descriptions inside jaxlib 0.10.2.
"""

from __future__ import annotations

from hloc.ops.rows.custom_call import API_VERSIONS

ELEMENT_TYPES = {
    "pred": 1, "s8": 2, "s16": 3, "s32": 4, "s64": 5, "u8": 6, "u16": 7, "u32": 8, "u64": 9,
    "f16": 10, "f32": 11, "f64": 12, "opaque": 14, "c64": 15, "bf16": 16, "token": 17,
    "c128": 18, "f8e5m2": 19, "f8e4m3fn": 20, "s4": 21, "u4": 22, "f8e4m3b11fnuz": 23,
    "f8e5m2fnuz": 24, "f8e4m3fnuz": 25, "s2": 26, "u2": 27, "f8e4m3": 28, "f8e3m4": 29,
    "s1": 30, "u1": 31, "f4e2m1fn": 32, "f8e8m0fnu": 33, "f6e3m2fn": 35, "f6e2m3fn": 36,
}  # fmt: skip
TUPLE, BUFFER = 13, 34

ENUMS: dict[str, dict[str, int]] = {
    "fft_type": {"FFT": 0, "IFFT": 1, "RFFT": 2, "IRFFT": 3},
    "distribution": {"rng_uniform": 1, "rng_normal": 2},
    "rng_algorithm": {"rng_default": 0, "rng_three_fry": 1, "rng_philox": 2},
    "transpose": {"": 0, "NO_TRANSPOSE": 1, "TRANSPOSE": 2, "ADJOINT": 3},
    "padding_type": {"PADDING_INVALID": 0, "PADDING_VALID": 1, "PADDING_SAME": 2},
    "schedule": {"SCHEDULE_NONE": 0, "SCHEDULE_LATEST": 1, "SCHEDULE_EARLIEST": 2},
    "api_version": {
        name: i for i, name in enumerate(("API_VERSION_UNSPECIFIED", *API_VERSIONS))
    },
    "precision": {"default": 0, "high": 1, "highest": 2},
    "dot_algorithm": {
        "": 0,
        "dot_any_f8_any_f8_f32": 1,
        "dot_any_f8_any_f8_f32_fast_accum": 2,
        "dot_f16_f16_f16": 3,
        "dot_f16_f16_f32": 4,
        "dot_bf16_bf16_bf16": 5,
        "dot_bf16_bf16_f32": 6,
        "dot_bf16_bf16_f32_x3": 7,
        "dot_bf16_bf16_f32_x6": 8,
        "dot_tf32_tf32_f32": 9,
        "dot_tf32_tf32_f32_x3": 10,
        "dot_f32_f32_f32": 11,
        "dot_f64_f64_f64": 12,
        "dot_bf16_bf16_f32_x9": 13,
    },
    "conv_kind": {"unset": 0, "fprop": 1, "dgrad": 2, "wgrad": 3},
    "sharding": {
        "replicated": 0, "maximal": 1, "tuple": 2, "tiled": 3, "manual": 4, "unknown": 5,
        "unreduced": 6,
    },
    "reduction": {"": 0, "max": 1, "min": 2},
    "alias": {"undefined": 0, "may": 1, "must": 2},
    "shard_group": {"shard_as": 0, "shard_like": 1},
    "tri_state": {"unspecified": 0, "true": 1, "false": 2},
    "accuracy": {"default": 0, "highest": 1},
}  # fmt: skip


def enum_name(enum: str, number: int) -> str | None:
    """Return the name of `number`, None if the enum has no such value."""
    return next((name for name, value in ENUMS[enum].items() if value == number), None)
