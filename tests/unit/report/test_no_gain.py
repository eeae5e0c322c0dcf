"""One line says why passes took away neither kernels nor bytes."""

import pytest

import hloc
from hloc.analysis.cost import Cost
from hloc.analysis.measure import Measure, measure_of
from hloc.cli import main
from hloc.opt.pass_base import Remark
from hloc.report.kernel_times import KernelTime
from hloc.report.no_gain import bound_text, heaviest_text, no_gain_text

DOTS = """HloModule dots

ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,8] parameter(1)
  z = f32[8,64] parameter(2)
  d = f32[64,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,64] dot(d, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def missed(at: str, text: str) -> Remark:
    return Remark("missed", "fusion", at, text)


def test_the_commonest_reason_is_given_with_names() -> None:
    figures = measure_of(hloc.parse(DOTS))
    remarks = [
        missed("a", "it has 3 users"),
        missed("b", "users: 2"),
        missed("c", "it has 3 users"),
        missed("d", "it has 3 users"),
        missed("d", "it has 3 users"),
        Remark("passed", "fusion", "e", "saves 8 bytes"),
    ]
    told = "not faster: it has 3 users (%a, %c, 3 in all); 1 other reason"
    assert no_gain_text(figures, figures, remarks) == told
    assert no_gain_text(figures, figures, []) == ""


@pytest.mark.parametrize(("kernels", "size"), [(1, 100), (2, 99)])
def test_fewer_kernels_or_bytes_need_no_reason(kernels: int, size: int) -> None:
    before = Measure(4, 2, Cost(bytes_read=100))
    after = Measure(4, kernels, Cost(bytes_read=size))
    assert no_gain_text(before, after, [missed("a", "it has 3 users")]) == ""


def test_the_heaviest_instruction_bounds_what_no_pass_changes() -> None:
    first = hloc.parse(DOTS)
    text = "not faster: d is 50 % of the arithmetic"
    assert heaviest_text(first, first.apply("-O2")) == f"{text}, and no pass has changed it"
    assert heaviest_text(hloc.parse(DOTS.replace("x = ", "q = ").replace("(x", "(q")), first)
    copy = "HloModule c\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT c = f32[4] copy(x)\n}\n"
    module = hloc.parse(copy)
    assert heaviest_text(module, module).startswith("not faster: c is 100 % of the memory traffic")


def test_the_slowest_kernel_bounds_times() -> None:
    module = hloc.parse(DOTS)
    kernels = [
        KernelTime(name, "dot", "", Cost(), seconds) for name, seconds in (("r", 3.0), ("d", 1.0))
    ]
    text = bound_text(module, module, kernels)
    assert text.startswith("not faster: r takes 75 % of the time of the kernels, and no pass")
    assert bound_text(module, module, []) == ""


def test_the_command_line_shows_it(
    tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    with open("dots.hlo", "w", encoding="utf-8") as file:
        file.write(DOTS)
    assert main(["dots.hlo", "-O2", "--print-changed", "-o", "-"]) == 0
    assert "not faster: d is 50 % of the arithmetic, and no pass" in capsys.readouterr().err
