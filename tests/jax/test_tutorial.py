"""The Python of docs/tutorial.md prints what the page shows, and makes the modules it shows."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.jax

from hloc.learn.document import Code, read_cells  # noqa: E402
from hloc.pjrt.records import COMPILATIONS  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "examples" / "tutorial"
_NUMBERS = re.compile(r" +(?:kept +)?[\d,]+\.\d+(?: [mu]s)?")


@pytest.fixture(autouse=True)
def _on_xla() -> Iterator[None]:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def test_each_block_prints_what_stands_behind_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All in one program, as a reader types them; without the times of the report."""
    monkeypatch.syspath_prepend(str(FILES))
    monkeypatch.delitem(sys.modules, "margin", raising=False)
    COMPILATIONS.clear()
    cells = read_cells((ROOT / "docs" / "tutorial.md").read_text())
    names: dict[str, Any] = {}
    blocks = 0
    for block, shown in pairwise(cells):
        if isinstance(block, Code) and block.language == "python":
            assert isinstance(shown, Code)
            exec(block.text, names)
            printed = capsys.readouterr().out.rstrip()
            assert _plain(printed) == _plain(shown.text)
            blocks += 1
    assert blocks == 4


def _plain(text: str) -> str:
    return "\n".join(
        line.rstrip() for line in _NUMBERS.sub(" N", re.sub(" {2,}", "  ", text)).splitlines()
    )


def test_the_example_writes_the_modules_of_the_tutorial(tmp_path: Path) -> None:
    """As a program of its own: the stack of callers is in the text."""
    script = shutil.copy(FILES / "margin.py", tmp_path)
    subprocess.run([sys.executable, str(script)], check=True)
    for name in ("margin.hlo", "faster.hlo"):
        assert (tmp_path / name).read_text() == (FILES / name).read_text()


def test_a_comparison_with_xla_prints_no_log_of_jaxlib() -> None:
    command = [sys.executable, "-m", "hloc", "run", str(FILES / "faster.hlo"), "--random"]
    done = subprocess.run(
        [*command, "--compare-with=xla"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "compare with xla: OK" in done.stderr
    assert "pjrt" not in done.stderr
