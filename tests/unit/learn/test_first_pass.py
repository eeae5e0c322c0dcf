"""docs/first-pass.md shows what its commands print, and the files of examples/first_pass."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hloc.learn.document import read_cells, write_cells
from hloc.opt.registry import forget_registered
from tests.unit.learn.transcripts import run_cells

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "first-pass.md"
FILES = ROOT / "examples" / "first_pass"


@pytest.fixture
def no_plugins() -> Iterator[None]:
    """The commands of the page load plug-ins; the registry is left as it was."""
    forget_registered()
    yield
    forget_registered()


@pytest.mark.usefixtures("no_plugins")
def test_the_page_shows_what_the_commands_print(tmp_path: Path, update_golden: bool) -> None:
    """All but the times; `--update-golden` writes the outputs anew."""
    written = read_cells(PAGE.read_text())
    run = run_cells(written, FILES, tmp_path / "first_pass")
    if update_golden:
        PAGE.write_text(write_cells(run))
    assert write_cells(run) == write_cells(written) or update_golden


def test_the_page_shows_the_files() -> None:
    files = {name: (FILES / name).read_text() for name in ("score.hlo", "mypass.py")}
    blocks = re.findall(
        r"^```(?:hlo|python)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert blocks[:2] == list(files.values())
    assert blocks[2] in (FILES / "wrong.py").read_text()
    assert blocks[3] in (FILES / "test_mypass.py").read_text()
    assert len(blocks) == 4


def test_hloc_is_installed_as_the_readme_says() -> None:
    """CI installs it so: tests/test_packaging.py does with a wheel."""
    (line,) = re.findall(r"^\$ (python3 -m venv.*)$", PAGE.read_text(), re.MULTILINE)
    assert f"$ {line} &&" in (ROOT / "README.md").read_text()


def test_the_test_of_the_example_passes() -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mypass.py"]
    done = subprocess.run(words, cwd=FILES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
