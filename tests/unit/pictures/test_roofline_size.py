"""Rooflines of modules with thousands of kernels."""

import time

from hloc.pictures.roofline import Kernel, Roofs, roofline

ROOFS = Roofs(1e11, (("L1", 2e11), ("memory", 1e10)))
MOST_SECONDS = 15.0  # of processor time; where every label is tried it takes minutes


def test_thousands_of_kernels_in_a_few_places_are_drawn_at_once() -> None:
    kernels = [
        Kernel(f"add.{i}", "add", 1000 + i % 7, 4000, 1e-6 * (1 + i % 7), False)
        for i in range(16_000)
    ]
    started = time.process_time()
    chart = roofline("m", ROOFS, kernels)
    assert time.process_time() - started < MOST_SECONDS
    assert "more like it" in chart
