"""Times, sizes and counts as text for people."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return `8.3 us`, `0.21 ms`, `412 ms`, `3.20 s`."""
    if seconds >= 1.0:
        return f"{seconds:.2f} s"
    ms = seconds * 1e3
    if ms < 0.1:
        return f"{ms * 1e3:.1f} us"
    digits = 0 if ms >= 100 else 1 if ms >= 10 else 2
    return f"{ms:.{digits}f} ms"


def size_text(size_bytes: int) -> str:
    """Return `712 B`, `128 KiB`, `1.2 MiB`."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def count_text(number: float, unit: str) -> str:
    """Return `17.0 MFLOP` for 17e6 and `FLOP`."""
    value, prefix = float(number), ""
    for larger in ("k", "M", "G", "T", "P"):
        if value < 1000:
            break
        value, prefix = value / 1000, larger
    return f"{value:.0f} {unit}" if not prefix else f"{value:.1f} {prefix}{unit}"
