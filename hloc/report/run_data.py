"""Runs and comparisons as JSON; NaN and infinity, which JSON lacks, are strings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.analysis.diff.module_lines import element_text
from hloc.dtypes import Array
from hloc.report.compare import Comparison
from hloc.report.run_report import PREVIEW_ELEMENTS, Timing
from hloc.shapes import ArrayShape


def timing_data(timing: Timing, flops: int, threads: int, devices: int) -> dict[str, Any]:
    """Return the times of runs, with threads and devices."""
    return {
        "runs": len(timing.seconds),
        "median_seconds": timing.median,
        "p95_seconds": timing.p95,
        "flops": flops,
        "threads": threads,
        "devices": devices,
    }


def outputs_data(
    outputs: Sequence[Array], shapes: Sequence[ArrayShape], elements: int | None
) -> list[dict[str, Any]]:
    """Return shape and first `elements` of each output, None for a short preview."""
    limit = PREVIEW_ELEMENTS if elements is None else elements
    return [
        {
            "shape": shape.text_without_layout,
            "values": [json_number(value) for value in np.asarray(output).reshape(-1)[:limit]],
        }
        for output, shape in zip(outputs, shapes, strict=True)
    ]


def json_number(value: Any) -> object:
    """Return a JSON number or boolean, or a string for values that JSON lacks."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, bool | int) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    return element_text(np.asarray(value)[()])


def comparison_data(found: Comparison) -> dict[str, Any]:
    """Return the verdict with its worst element."""
    worst = found.worst
    return {
        "ok": found.ok,
        "elements": found.elements,
        "different": found.bad,
        "max_ulp": found.max_ulp,
        "max_error": json_number(found.max_error),
        "nan_mismatches": found.nan_mismatches,
        "worst": worst and {"at": worst.place, "is": worst.got, "expected": worst.want},
    }
