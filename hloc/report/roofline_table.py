"""The table of `hloc roofline`: the time and rates of each kernel against this machine's roof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloc.errors import printable
from hloc.pictures.roofline import Kernel, Roofs
from hloc.quantities import duration
from hloc.report.text import aligned, plural

_MOST_ROWS = 40
_WIDEST_NAME = 26
_WIDEST_RATE = 99_999.9

MODELLED = "modelled times, the least that the roof allows (--run measures)"
CACHED = "bound by {}: faster than memory allows, since its arrays stay in that cache"
BEYOND = "above 100%: the peaks are measured too, while other programs may use the machine"


def roofline_table(roofs: Roofs, kernels: Sequence[Kernel]) -> list[str]:
    """Return the lines of the table, the longest time first; within 80 columns.

    Modelled times are computed from the roof, so only measured ones have a share of it.
    """
    if not kernels:
        return []
    ordered = sorted(kernels, key=lambda kernel: (-kernel.seconds, kernel.name))
    measured = sum(kernel.measured for kernel in ordered)
    time = "time" if measured else "modelled time"
    header = ("kernel", time, "GFLOP/s", "GB/s", "of roof", "bound by")
    shown = ordered[:_MOST_ROWS]
    reached = [_reached(roofs, kernel) for kernel in shown]
    rows = [
        _row(kernel, *pair, bool(measured)) for kernel, pair in zip(shown, reached, strict=True)
    ]
    lines = aligned([header, *rows], right=range(1, 5))
    caches = [name for name, _ in roofs.memories[:-1] if any(name == found for _, found in reached)]
    return [*lines, *_notes(ordered, measured, caches, max(share for share, _ in reached))]


def _reached(roofs: Roofs, kernel: Kernel) -> tuple[float, str]:
    """Return the share of the roof, 0 if the time is only modelled, and the kind of the roof."""
    if not kernel.measured or not kernel.seconds:
        return 0.0, roofs.bound(kernel.flops, kernel.bytes)
    return roofs.reached(kernel.flops, kernel.bytes, kernel.seconds)


def _row(kernel: Kernel, reached: float, bound: str, is_mixed: bool) -> tuple[str, ...]:
    name = printable(kernel.name)
    if len(name) > _WIDEST_NAME:
        name = name[: _WIDEST_NAME - 3] + "..."
    time = duration(kernel.seconds)
    if is_mixed and not kernel.measured:
        time += " modelled"
    share = "-"
    if kernel.measured and kernel.seconds:
        share = f"{reached:.0%}" if reached < 10 else ">999%"
    rates = (_giga(amount, kernel.seconds) for amount in (kernel.flops, kernel.bytes))
    return (name, time, *rates, share, bound)


def _giga(amount: int, seconds: float) -> str:
    rate = amount / seconds / 1e9 if seconds else 0.0
    return f"{rate:.1f}" if rate <= _WIDEST_RATE else f"{rate:.2g}"


def _notes(
    ordered: Sequence[Kernel], measured: int, caches: Sequence[str], most: float
) -> Iterator[str]:
    rest = ordered[_MOST_ROWS:]
    if rest:
        share = sum(k.seconds for k in rest) / (sum(k.seconds for k in ordered) or 1.0)
        yield f"and {plural(len(rest), 'kernel')} more with {share:.0%} of the time"
    if not measured:
        yield MODELLED
    if caches:
        yield CACHED.format(" or ".join(caches))
    if most >= 1.005:
        yield BEYOND
