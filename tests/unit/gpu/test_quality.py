"""What makes kernels fast, as far as it shows without a GPU: wide loads, registers, sectors, banks.

The bounds are those of the kernels as they are, with a little room: a change that makes a kernel
worse fails here, one that makes it better may lower them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from hloc.codegen.gpu.nvptx import cubin
from hloc.ptx import LaunchReport
from tests.unit.gpu.simulate import check, compiled, entry

needs_assembler = pytest.mark.skipif(
    not cubin.can_assemble(), reason="neither nvJitLink nor ptxas is installed"
)

_SUM = "s { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b) }"
_MAX = _SUM.replace("s {", "m {").replace("add", "maximum")


def _reduce(shape: str, result: str, dim: int) -> str:
    text = entry(shape, f"{result} reduce(p0, z), dimensions={{{dim}}}, to_apply=s", _SUM)
    return text.replace("  ROOT r = f32[", "  z = f32[] constant(0)\n  ROOT r = f32[").replace(
        "  z = f32[] constant(0)\n  ROOT r = f32[] add", "  ROOT r = f32[] add", 1
    )


_SOFTMAX = f"""HloModule m
{_SUM}
{_MAX}
ENTRY e {{
  x = f32[16,1024] parameter(0)
  low = f32[] constant(-inf)
  top = f32[16] reduce(x, low), dimensions={{1}}, to_apply=m
  tops = f32[16,1024] broadcast(top), dimensions={{0}}
  d = f32[16,1024] subtract(x, tops)
  e = f32[16,1024] exponential(d)
  z = f32[] constant(0)
  sum = f32[16] reduce(e, z), dimensions={{1}}, to_apply=s
  sums = f32[16,1024] broadcast(sum), dimensions={{0}}
  ROOT r = f32[16,1024] divide(e, sums)
}}"""


@dataclass(frozen=True)
class Family:
    """One kernel that stands for its family.

    Attributes:
        registers: most that a thread may take.
        instructions: most per thread, on average.
        efficiency: share of the bytes of touched sectors that must be used.
        wide_reads, wide_writes: 16 bytes at a time.
    """

    text: str
    registers: int
    instructions: float
    efficiency: float
    wide_reads: bool = False
    wide_writes: bool = False


FAMILIES = {
    "loop": Family(
        entry("f32[262144];f32[262144]", "f32[262144] add(p0, p1)"), 20, 28, 1.0, True, True
    ),
    # Four neighbours at once: 33 registers where one at a time took 32, and half the instructions.
    "rows": Family(_reduce("f32[16,4096]", "f32[16]", 1), 40, 75, 0.98, True),
    "columns": Family(_reduce("f32[128,512]", "f32[512]", 0), 32, 110, 0.9),
    "softmax": Family(_SOFTMAX, 44, 350, 0.99),
    "long softmax": Family(
        _SOFTMAX.replace("1024", "20000").replace("16", "2"), 60, 750, 0.99, True
    ),
    "transpose": Family(
        entry("f32[256,96]", "f32[96,256] transpose(p0), dimensions={1,0}"), 24, 60, 1.0
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]


def test_text_has_no_calls_and_no_memory_of_threads(family: Family) -> None:
    text = compiled(family.text).ptx
    assert not re.search(r"\.local\b|\bcall\b|\.func\b", text)
    assert "ld.global.nc" in text  # what nobody writes comes through the read-only cache
    assert ("ld.global.nc.v4.b32" in text) >= family.wide_reads
    assert ("st.global.v4.b32" in text) >= family.wide_writes


@needs_assembler
def test_registers_and_spills_stay_below_their_bounds(family: Family) -> None:
    uses = cubin.assemble(compiled(family.text, cpu="sm_80").ptx, "sm_80").uses
    assert uses
    for use in uses.values():
        assert use.spill_bytes == 0
        assert use.registers <= family.registers


def test_sectors_are_whole_banks_do_not_collide_and_instructions_are_few(family: Family) -> None:
    device = check(family.text)
    reports = [report for _, report in device.reports]
    assert _efficiency(reports) >= family.efficiency
    functions = {f.name: f for k in compiled(family.text).kernels for f in k.functions}
    for name, report in device.reports:
        assert report.bank_conflict_ratio == pytest.approx(1.0)
        x, y, z = functions[name].grid
        threads = functions[name].threads * x * y * z
        assert report.thread_instructions / threads <= family.instructions


def _efficiency(reports: list[LaunchReport]) -> float:
    touched = sum(report.global_sectors * 32 for report in reports)
    return sum(report.global_bytes for report in reports) / touched
