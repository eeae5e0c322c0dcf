"""The effect of a pass on kernels and memory traffic of a module, as text and as JSON."""

from __future__ import annotations

from hloc.analysis.measure import Measure
from hloc.quantities import size_text


def effect_text(before: Measure, after: Measure, arrow: str = "->") -> str:
    """Return `kernels 33 -> 9, 1.2 MiB -> 612 KiB`: what determines the speed of a module.

    A fusion adds instructions and removes kernels; bytes are those that kernels read and write.
    """
    kernels = _change(f"{before.kernels:,}", f"{after.kernels:,}", arrow)
    moved = _change(size_text(before.cost.bytes), size_text(after.cost.bytes), arrow)
    return f"kernels {kernels}, {moved}"


def _change(before: str, after: str, arrow: str) -> str:
    return before if before == after else f"{before} {arrow} {after}"


def effect_data(before: Measure, after: Measure) -> dict[str, list[int]]:
    """Return kernels and bytes before and after, as JSON."""
    return {
        "kernels": [before.kernels, after.kernels],
        "bytes": [before.cost.bytes, after.cost.bytes],
    }
