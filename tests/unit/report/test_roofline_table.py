"""The table of `hloc roofline`: order, width, shares of the roof, and what is only modelled."""

from hloc.pictures.roofline import Kernel, Roofs
from hloc.report.roofline_table import BEYOND, CACHED, roofline_table

ROOFS = Roofs(1e11, (("L1", 2e11), ("memory", 2e10)))


def test_rows_have_the_longest_time_first_and_rates_by_hand() -> None:
    found = roofline_table(ROOFS, [
        Kernel("add.2", "add", 10**6, 10**7, 0.001, True),
        Kernel("dot.1", "dot", 10**9, 10**6, 0.02, True),
    ])  # fmt: skip
    assert [line.split() for line in found[1:]] == [
        ["dot.1", "20.0", "ms", "50.0", "0.1", "50%", "compute"],
        ["add.2", "1.00", "ms", "1.0", "10.0", "50%", "memory"],
    ]


def test_a_modelled_time_among_measured_ones_says_so_and_has_no_share() -> None:
    found = roofline_table(ROOFS, [
        Kernel("dot.1", "dot", 10**9, 10**6, 0.02, True),
        Kernel("add.2", "add", 10**6, 10**7, 0.0005, False),
    ])  # fmt: skip
    assert "modelled" not in found[0]
    assert found[2].split()[:4] == ["add.2", "0.50", "ms", "modelled"]
    assert found[2].split()[-2:] == ["-", "memory"]


def test_lines_fit_in_80_columns_and_hold_no_control_characters() -> None:
    kernels = [
        Kernel(f"a\x1b[31m{'long' * 40}{i}", "dot", 10**20, 10**19, 1e-3, i > 0) for i in range(60)
    ]
    found = roofline_table(ROOFS, kernels)
    assert max(map(len, found)) <= 80
    assert not any("\x1b" in line for line in found)
    assert any("20 kernels more" in line for line in found)


def test_what_is_faster_than_memory_has_the_roof_of_a_cache_and_a_line_says_why() -> None:
    found = roofline_table(ROOFS, [
        Kernel("add.1", "add", 10**6, 10**7, 0.0001, True),
        Kernel("add.2", "add", 10**6, 10**7, 0.0005, True),
    ])  # fmt: skip
    assert [line.split()[-2:] for line in found[1:3]] == [["100%", "memory"], ["50%", "L1"]]
    assert found[3:] == [CACHED.format("L1")]


def test_more_than_the_whole_roof_is_explained() -> None:
    found = roofline_table(ROOFS, [Kernel("dot.1", "dot", 10**9, 10**6, 0.008, True)])
    assert found[1].split()[-2:] == ["125%", "compute"]
    assert found[2:] == [BEYOND]


def test_what_takes_no_time_has_a_row_and_no_kernels_have_no_table() -> None:
    assert roofline_table(ROOFS, [Kernel("c", "copy", 0, 0, 0.0, False)])[1].split()[0] == "c"
    assert roofline_table(ROOFS, []) == []
