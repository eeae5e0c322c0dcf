"""`hloc check`: RUN lines without a shell, and check lines that mean what FileCheck's mean."""

import re
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.cli.filecheck.matching import Mismatch, match_output
from hloc.cli.filecheck.pattern import PatternFault, directives
from hloc.cli.filecheck.run_lines import _REFUSED, run_lines
from hloc.cli.options import OPTIONS
from hloc.errors import HloError

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]
OUTPUT = """one  two
three
four {{0,1}}

five = add(one, six)
six = 7
"""

HOLD = [
    "CHECK: one two",
    "CHECK: one\nCHECK-SAME: two\nCHECK-NEXT: three",
    "CHECK: four\nCHECK-EMPTY:\nCHECK-NEXT: five",
    "CHECK{LITERAL}: four {{0,1}}",
    "CHECK: {{^th[a-z]+$}}",
    "CHECK: {{[[:alpha:]]+}} {{[{]+}}0",
    "CHECK: [[X:[a-z]+]] {{ *}}two\nCHECK: add([[X]], [[Y:.*]])\nCHECK-NEXT: [[Y]] = 7",
    "CHECK: add([[A:[a-z]+]], [[B:.*]])\nCHECK-NOT: [[A]]\nCHECK: [[B]] = 7",
    "CHECK: three\nCHECK-NOT: three\nCHECK: five",
    "CHECK-DAG: six =\nCHECK-DAG: four\nCHECK-DAG: one",
    "CHECK-NOT: seven",
    "CHECK-COUNT-1: {{e$}}",
    "CHECK-COUNT-2: six",
    "CHECK-LABEL: one\nCHECK: three\nCHECK-LABEL: four\nCHECK-NOT: three\nCHECK: five",
    "CHECK: six = [[#N:]]\nCHECK-NOT: [[#N+1]]",
    "A: one\nCHECK: three\nB: four",
    "COM: CHECK: no\nCHECK: one",
]
FAIL = {
    "CHECK: seven": "not found",
    "CHECK: three\nCHECK: one two": "not found",
    "CHECK: one\nCHECK-NEXT: two": "on the same line as the one before",
    "CHECK: one\nCHECK-NEXT: four": "2 lines after the one before",
    "CHECK: one\nCHECK-SAME: three": "not on the line of the one before",
    "CHECK: three\nCHECK-EMPTY:": "next line is not empty",
    "CHECK: one\nCHECK-NOT: three\nCHECK: four": "found what must not be there",
    "CHECK: four\nCHECK-NOT: six =": "found what must not be there",
    "CHECK-DAG: one\nCHECK-DAG: one two": "not found",
    "CHECK-DAG: six =\nCHECK-DAG: one\nCHECK: five": "not found",
    "CHECK-COUNT-4: six": "not found",
    "CHECK-LABEL: one\nCHECK: five\nCHECK-LABEL: four": "not found",
    "CHECK-LABEL: [[X:.*]]": "cannot have variables",
    "CHECK: [[X:one]]\nCHECK: [[X]]\nCHECK: [[X]]": "not found",
    "CHECK: [[Z]]": "variable Z has no value yet",
    "CHECK: {{(}}": "wrong regular expression",
    "CHECK: {{a": "'{{' without '}}'",
    "CHECK: [[a": "'[[' without ']]'",
    "CHECK-NEXT: one": "without a check before it",
    "CHECK:": "has no pattern",
    "CHECK: one{{[^x]*}}three": "not found",
}


def _match(checks: str) -> None:
    match_output(OUTPUT, list(directives(checks, ("CHECK",))))


@pytest.mark.parametrize("checks", HOLD)
def test_checks_that_match(checks: str) -> None:
    _match(checks)


@pytest.mark.parametrize("checks", FAIL)
def test_checks_that_do_not_match(checks: str) -> None:
    with pytest.raises(Mismatch, match=re.escape(FAIL[checks])):
        _match(checks)


def test_prefixes_are_those_that_are_named() -> None:
    text = "A: one\nB-NEXT: three\nABC: no\nCHECK: no\nx-A: no"
    assert [row.name for row in directives(text, ("A", "B"))] == ["A", "B-NEXT"]
    with pytest.raises(PatternFault, match="above 0"):
        list(directives("CHECK-COUNT-0: x", ("CHECK",)))


def test_lines_can_be_named() -> None:
    match_output("t.hlo:2: error", list(directives("\n// CHECK: :[[@LINE]]: error", ("CHECK",))))
    match_output("t.hlo:2: error", list(directives("CHECK: :[[#@LINE+1]]: error", ("CHECK",))))


# ---------------------------------------------------------------- RUN lines


def test_run_lines_are_read() -> None:
    text = """
// RUN: not hloc %s \\
// RUN:   -O1 2>&1 | FileCheck %s --check-prefixes=A,B
# RUN: hloc %s
"""
    first, second = run_lines(text)
    assert (first.line, first.words, first.prefixes) == (2, ("%s", "-O1"), ("A", "B"))
    assert (first.fails, first.merges, second.fails) == (True, True, False)
    assert second.prefixes == ("CHECK",)


REFUSED = {
    "rm -rf x": "a RUN line runs hloc, found rm",
    "hloc %s; rm x": "no shell reads RUN lines, found '%s;'",
    "hloc %s && rm x": "no shell reads RUN lines",
    "hloc %s > out": "no shell reads RUN lines, found '>'",
    "hloc %s -o out": "cannot have -o",
    "hloc %s -oout": "cannot have -o",
    "hloc %s -qoout": "cannot have -o",
    "hloc %s -qc": "cannot have -c",
    "hloc %s -shared": "cannot have --shared",
    "hloc %s --emit exe": "cannot have --emit=exe",
    "hloc %s --emit=hlo,shared": "cannot have --emit=shared",
    "hloc %s --memory=out.svg": "cannot have --memory",
    "hloc explain-sharding %s --html=out.html": "cannot have --html",
    "hloc %s --output out.npz --run": "cannot have --output",
    "hloc %s --plugin=x.py": "cannot have --plugin",
    "hloc %s --dump-dir x": "cannot have --dump-dir",
    "hloc @words": "cannot have @words",
    "hloc reduce %s --test 'rm x'": "cannot run hloc reduce",
    "hloc repl %s": "cannot run hloc repl",
    "hloc fmt %s": "cannot run hloc fmt",
    "hloc -q fmt %s": "cannot run hloc fmt",
    "hloc -q repl %s": "cannot run hloc repl",
    "hloc --target=cpu reduce %s --test 'rm x {}'": "cannot run hloc reduce",
    "hloc %s | sh": "goes to FileCheck %s only",
    "hloc %s | FileCheck %s | sh": "FileCheck takes %s",
    "hloc %s 'a": "cannot read the RUN line",
}


@pytest.mark.parametrize("command", REFUSED)
def test_a_run_line_is_for_hloc_alone(command: str) -> None:
    with pytest.raises(HloError, match=re.escape(REFUSED[command])):
        list(run_lines(f"// RUN: {command}"))


READS = {"--resume-from", "--inputs", "--compare-with", "--against"}


def test_every_option_that_names_a_file_is_refused_or_reads_it() -> None:
    """A new option that writes is refused, too."""
    words = ("FILE", "DIR", "COMMAND")
    rows = [row for row in OPTIONS if any(word in row.metavar for word in words)]
    assert {row.dest for row in rows if row.flags[0] not in READS} <= {*_REFUSED}
    assert {*_REFUSED} <= {row.dest for row in OPTIONS}


# ---------------------------------------------------------------- the command


TEXT = """// RUN: hloc %s --passes=algebraic-simplifier,dce | FileCheck %s
// a comment that stays
HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(a)
  ROOT t = f32[4] tanh(b)
}
"""


def test_update_writes_what_then_holds(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "m.hlo"
    file.write_text(TEXT)
    assert main(["check", str(file)]) == 1
    assert "has no CHECK line\nnote: `hloc check --update` writes them" in capsys.readouterr().err
    assert main(["check", str(file), "--update"]) == 0
    assert "// CHECK-NEXT:   ROOT %t = f32[4]{0} tanh(%x)\n" in file.read_text()
    assert main(["check", str(file)]) == 0
    assert "OK, 1 RUN line, 6 checks" in capsys.readouterr().err
    file.write_text(file.read_text().replace("tanh(%x)", "cosh(%x)"))
    assert main(["check", str(file), "-q"]) == 1
    told = capsys.readouterr().err
    assert f"{file}:6:18: error: CHECK-NEXT: not found" in told
    assert "output 5:   ROOT %t = f32[4]{0} tanh(%x)" in told
    assert main(["check", str(file), "--update"]) == 0
    assert main(["check", str(file)]) == 0
    kept = [line for line in file.read_text().split("\n") if "CHECK" not in line]
    assert kept == [line for line in TEXT.split("\n") if "CHECK" not in line]


def test_a_command_that_has_to_fail(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "m.hlo"
    lines = [
        "// RUN: not hloc verify %s 2>&1",
        "// CHECK: m.hlo:[[@LINE+3]]:{{[0-9]+}}: error{{.*}}: unknown opcode: tan_",
        "ENTRY e {",
        "  x = f32[4] parameter(0)",
        "  ROOT t = f32[4] tan_(x)",
        "}",
    ]
    file.write_text("\n".join(lines))
    assert main(["check", str(file)]) == 0, capsys.readouterr().err
    file.write_text(file.read_text().replace("not hloc", "hloc"))
    assert main(["check", str(file)]) == 1
    assert "ended with code 1, expected code 0" in capsys.readouterr().err


def test_two_outputs_need_prefixes_of_their_own(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "m.hlo"
    second = "// RUN: hloc %s --passes=dce | FileCheck %s"
    file.write_text(f"{second}\n{TEXT}")
    assert main(["check", "--update", str(file)]) == 1
    assert "RUN lines 1 and 2 print different texts" in capsys.readouterr().err
    file.write_text(f"{second} --check-prefix=DCE\n{TEXT}")
    assert main(["check", "--update", str(file)]) == 0
    assert main(["check", str(file)]) == 0
    assert "2 RUN lines, 14 checks" in capsys.readouterr().err


def test_the_page_has_a_file_that_holds(tmp_path: Path, capsys: Capture) -> None:
    page = (ROOT / "docs" / "check.md").read_text()
    file = tmp_path / "page.hlo"
    file.write_text(page.split("```\n")[1])
    assert main(["check", str(file)]) == 0, capsys.readouterr().err


def test_hooks_of_pre_commit_run_commands_that_exist(tmp_path: Path) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entries = re.findall(r"^  entry: hloc (.*)$", text, re.MULTILINE)
    assert len(entries) == text.count("- id: hloc-") == 3
    file = tmp_path / "m.hlo"
    file.write_text(TEXT + "// CHECK: tanh\n")
    for entry in entries:
        assert main([*entry.split(), str(file)]) == 0
