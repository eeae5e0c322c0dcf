"""Types that stand in for those of `cuda.bindings.driver`, where the package is not installed."""

from __future__ import annotations

from typing import Any

_ENUMERATIONS = {
    "CUresult", "CUstreamCaptureMode", "CUtensorMapDataType", "CUtensorMapInterleave",
    "CUtensorMapSwizzle", "CUtensorMapL2promotion", "CUtensorMapFloatOOBfill",
}  # fmt: skip


class _Names:
    """An enumeration whose values are their names."""

    def __getattr__(self, name: str) -> str:
        return name


class _TensorMap:
    """Like a tensor map: 16 words."""

    opaque: list[int]


class StandIns:
    """The types of `cuda.bindings.driver`: handles are integers, enumerations are names."""

    CUtensorMap = _TensorMap

    def __getattr__(self, name: str) -> Any:
        has_values = name.startswith("CU") and "_" in name
        is_enumeration = has_values or name in _ENUMERATIONS
        return _Names() if is_enumeration else int
