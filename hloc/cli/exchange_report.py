"""`--profile` of a run on several devices: the time of each collective, waiting included."""

from __future__ import annotations

from typing import Any

from hloc.quantities import duration, size_text
from hloc.report.text import aligned, plural


def exchange_lines(executable: Any) -> list[str]:
    """Return a line per collective: bytes on a device, the shortest and longest time of a device.

    A large difference between the two means that some devices wait for others.
    """
    found = executable.exchange_seconds() if hasattr(executable, "exchange_seconds") else []
    rows: list[tuple[str, ...]] = [("collective", "opcode", "groups", "bytes", "least", "most")]
    for exchange, seconds in found:
        rows.append(
            (
                f"{exchange.name} ({exchange.place})" if exchange.place else exchange.name,
                exchange.opcode,
                str(len(exchange.groups)),
                size_text(sum(operand.size_bytes for operand in exchange.operands)),
                duration(min(seconds, default=0.0)),
                duration(max(seconds, default=0.0)),
            )
        )
    lines = [f"  {line}" for line in aligned(rows, range(2, len(rows[0])))]
    return [f"profile: {plural(len(found), 'collective')}", *lines]
