"""The counts of instructions on an emulated ARM processor: ratios, reports, and the plugin."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_neon, suite_page

COUNTED: dict[str, Any] = {
    "hloc": 1_000_000,
    "xla": 4_000_000,
    "wrong": 0,
    "flops": 1e6,
    "bytes": 8e6,
}
FAULT: dict[str, Any] = {"fault": "the emulation ended"}


def test_the_summary_names_what_takes_more_instructions() -> None:
    rows = {"dot": COUNTED, "sort": COUNTED | {"hloc": 16_000_000}, "fft": FAULT}
    assert bench_neon.summary(rows) == (
        "2 programs: geometric mean of the ratios of instructions 1.00; more than XLA: sort 4.00"
    )
    assert bench_neon.summary({"fft": FAULT}) == "nothing was measured"


def test_programs_that_move_much_in_few_instructions_wait_for_memory() -> None:
    assert bench_neon.waits_for_memory(COUNTED)
    assert not bench_neon.waits_for_memory(COUNTED | {"bytes": 2e6})  # in a cache
    assert not bench_neon.waits_for_memory(COUNTED | {"hloc": 8_000_000})


def test_the_page_has_a_row_per_program_that_was_counted() -> None:
    line = {
        "machine": {"cpu": bench_neon.MACHINE},
        "commit": "c0ffee",
        "date": "2026-11-29",
        "rows": {"1": {"dot": COUNTED, "fft": FAULT}},
    }
    page = suite_page.neon_section([line], ["dot", "fft"])
    assert f"## {bench_neon.MACHINE}\n" in page
    assert "| dot | 1 | 4 | 0.25 | memory |" in page
    assert "fft" not in page
    assert suite_page.neon_section([], ["dot"]) == ""


def test_a_missing_system_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(bench_neon.ROOT_VARIABLE, str(tmp_path))
    with pytest.raises(SystemExit, match="names no folder with an aarch64 system"):
        bench_neon.root_folder()


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("qemu-aarch64") and shutil.which("aarch64-linux-gnu-gcc")),
    reason="there is no qemu-aarch64 or aarch64-linux-gnu-gcc",
)
def test_the_plugin_counts_instructions(tmp_path: Path) -> None:
    """A loop of four instructions, 1,000 and 3,000 times."""
    counts = []
    plugin, counter = bench_neon.build_plugin(tmp_path)
    for times in (1_000, 3_000):
        source = f"""
            .globl _start
            _start: mov x1, #{times}
            again: nop
            nop
            subs x1, x1, #1
            b.ne again
            mov x0, #0
            mov x8, #93
            svc #0
        """
        (tmp_path / "main.s").write_text(source)
        words = ["aarch64-linux-gnu-gcc", "-nostdlib", "-static", "main.s", "-o", "main"]
        subprocess.run(words, cwd=tmp_path, check=True)
        counter.write_bytes(bytes(8))
        command = ["qemu-aarch64", "-plugin", f"{plugin},counter={counter}", "./main"]
        subprocess.run(command, cwd=tmp_path, check=True)
        counts.append(int.from_bytes(counter.read_bytes(), "little"))
    assert counts[1] - counts[0] == 4 * 2_000
