"""`--autotune`: what was measured of each kernel, and where the model of the machine errs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hloc.errors import printable
from hloc.quantities import duration
from hloc.report.text import aligned, cut, plural

if TYPE_CHECKING:
    from hloc.codegen.cpu.kernel_tuning import KernelTuning

_WIDEST_NAME = 26
_HEAD = ("kernel", "measured", "model", "fastest", "model / fastest")


def tuning_lines(tunings: Sequence[KernelTuning]) -> list[str]:
    """Return a table of the measured kernels, and the choices that differ from the model's."""
    if not tunings:
        return ["autotune: no kernel to measure"]
    kept = sum(tuning.is_kept for tuning in tunings)
    origin = f" ({kept} from the cache)" if kept else ""
    rows = [_HEAD, *map(_row, tunings)]
    lines = [f"autotune: {plural(len(tunings), 'kernel')}{origin}"]
    lines += [f"  {line}" for line in aligned(rows, right=range(1, len(_HEAD)))]
    for tuning in tunings:
        if tuning.best:
            lines += _difference(tuning)
    return lines


def _row(tuning: KernelTuning) -> tuple[str, ...]:
    first, used = tuning.seconds[0] or 0.0, tuning.seconds[tuning.best] or 0.0
    tried = sum(seconds is not None for seconds in tuning.seconds)
    measured = f"{tried} of {len(tuning.seconds)}"
    return (_name(tuning), measured, duration(first), duration(used), f"{tuning.gain:.2f}")


def _difference(tuning: KernelTuning) -> list[str]:
    """Return the lines for a kernel whose fastest choice is not that of the model."""
    end = "; the model errs by more than 10%" if tuning.is_error else ""
    return [
        f"  {_name(tuning)}{end}",
        f"    model    {tuning.choices[0]}",
        f"    fastest  {tuning.choices[tuning.best]}",
    ]


def _name(tuning: KernelTuning) -> str:
    return cut(printable(tuning.name), _WIDEST_NAME)


def tuning_data(tunings: Sequence[KernelTuning]) -> list[dict[str, Any]]:
    """Return the same as JSON data, with the time of every choice."""
    return [
        {
            "kernel": tuning.name,
            "choices": [
                {"choice": choice, "seconds": seconds}
                for choice, seconds in zip(tuning.choices, tuning.seconds, strict=True)
            ],
            "model": 0,
            "fastest": tuning.best,
            "model_over_fastest": tuning.gain,
            "from_cache": tuning.is_kept,
        }
        for tuning in tunings
    ]
