"""What pages show behind `$` is what the commands print, but for times, sizes and last digits.

docs/devices.md, repl.md, tutorial.md and diagnostics.md have tests of their own.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.codegen.aot_harness import needs_cc
from tests.unit.manual import ROOT
from tests.waiting import PATIENCE

BLOCK = re.compile(r"^```\n(\$ .*?)^```", re.MULTILINE | re.DOTALL)
_MEASURED = (
    (re.compile(r"\d[\d.]* (?=(ns|us|ms|s|B|KiB|GFLOP/s|runs|passes changed)\b)"), "# "),
    (re.compile(r"max \d+ ulp, max error \S+"), "max # ulp, max error #"),
    (re.compile(r"(?<=\s)\d+\.\d(?=\s|$)"), "#"),
    (re.compile(r"this machine: .*"), "this machine: #"),
    (re.compile(r"-?\d+\.\d{5,}(e-?\d+)?"), lambda found: f"{float(found[0]):.5g}"),
    (re.compile(r"\s+"), " "),
)


def steps(page: str, containing: str) -> list[tuple[str, str]]:
    """Return commands and outputs of the one block of a page with some words in it."""
    (block,) = (b for b in BLOCK.findall((ROOT / page).read_text()) if containing in b)
    found = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(found[::2], found[1::2], strict=True))


def printed(command: str, folder: Path) -> str:
    """Return what a command of a page writes to both streams."""
    hloc = f"{shlex.quote(sys.executable)} -m hloc "
    done = subprocess.run(
        re.sub("^hloc ", hloc, command),
        shell=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout


def comparable(text: str) -> str:
    """Return `text` without what depends on the machine."""
    for pattern, instead in _MEASURED:
        text = pattern.sub(instead, text)
    return text.strip()


def check(page: str, containing: str, folder: Path) -> None:
    for command, shown in steps(page, containing):
        assert comparable(printed(command, folder)) == comparable(shown), command


def test_the_readme_compiles_runs_and_compares() -> None:
    ((command, shown),) = steps("README.md", "--time-passes")
    found = printed(command, ROOT).splitlines()
    lines = sorted(map(comparable, found), key=lambda line: line.startswith("out0"))
    assert lines[:-1] == [comparable(x) for x in shown.splitlines() if not x.startswith("out0")]
    assert lines[-1] in [comparable(line) for line in shown.splitlines()]


FAULTY = """HloModule train


ENTRY e {
  x = f32[8,32] parameter(0)
  y = f32[8,64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[8,64] maxmum(y, y)
  ROOT r = f32[8,64] tanh(z)
}
"""


def test_the_readme_shows_faults(tmp_path: Path) -> None:
    (tmp_path / "train.hlo").write_text(FAULTY)
    check("README.md", "train.hlo:6", tmp_path)


HALF = """HloModule half
ENTRY main {
  x = s32[4] parameter(0)
  by = s32[] constant(2)
  all = s32[4] broadcast(by), dimensions={}
  ROOT h = s32[4] divide(x, all)
}
"""


def test_proofs_show_a_difference(tmp_path: Path) -> None:
    """Which inputs show it is up to Z3."""
    pytest.importorskip("z3")
    after = HALF.replace("constant(2)", "constant(1)").replace("divide", "shift-right-arithmetic")
    (tmp_path / "before.hlo").write_text(HALF)
    (tmp_path / "after.hlo").write_text(after)
    ((command, shown),) = steps("docs/proofs.md", "--prove")
    without_values = re.compile(r"\{.*\}")
    found = without_values.sub("", printed(command, tmp_path))
    assert found == without_values.sub("", shown)
    (tmp_path / "before.hlo").write_text(HALF.replace("s32", "u32"))
    (tmp_path / "after.hlo").write_text(
        after.replace("s32", "u32").replace("arithmetic", "logical")
    )
    page = (ROOT / "docs" / "proofs.md").read_text()
    assert printed(command, tmp_path).partition(": ")[2].strip() in page


def test_proofs_of_rules_are_listed() -> None:
    check("docs/proofs.md", "rules --proof", ROOT)


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples" / "aot_c", tmp_path, dirs_exist_ok=True)
    points = np.array([[0.1, 0.05], [-0.5, 0.2], [0.3, -0.6], [0, 0.9]])
    np.save(tmp_path / "points.npy", points.astype(np.float32))
    np.save(tmp_path / "points64.npy", points)
    return tmp_path


@needs_cc
@pytest.mark.parametrize("containing", ["main.c", "--emit=exe"])
def test_a_classifier_is_built_and_run(containing: str, classifier: Path) -> None:
    check("docs/ahead-of-time.md", containing, classifier)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="levels of x86-64")
def test_a_classifier_for_several_processors(classifier: Path) -> None:
    check("docs/ahead-of-time.md", "x86-64-v4", classifier)


def test_targets_are_listed() -> None:
    check("docs/ahead-of-time.md", "hloc targets", ROOT)


@pytest.mark.parametrize("word", ["hloc isolate", "hloc nan"])
def test_isolate_and_nan_show_what_the_page_shows(word: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    check("docs/isolate.md", word, tmp_path)
