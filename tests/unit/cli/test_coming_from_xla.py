"""docs/coming-from-xla.md; tests/unit/test_manual.py runs the commands of hloc that it shows."""

import re
import shlex
from pathlib import Path

import pytest

from hloc.cli.hlo_opt import main
from hloc.opt.pipeline import Pipeline

PAGE = (Path(__file__).parents[3] / "docs" / "coming-from-xla.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("line", re.findall(r"^(hlo-opt .*)$", PAGE, re.MULTILINE))
def test_the_examples_of_hlo_opt_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text("HloModule m\nENTRY e { ROOT p = f32[4] parameter(0) }\n")
    assert main(shlex.split(line)[1:]) == 0


def test_the_table_has_rows_of_three_cells_and_passes_that_exist() -> None:
    assert len(ROWS) > 50
    assert all(row.count("|") == 4 for row in ROWS)
    pipelines = set(re.findall(r"`hloc [^`]*--passes='?([^`' ]+)", PAGE))
    assert len(pipelines) > 2
    for pipeline in pipelines:
        Pipeline.parse(pipeline)
