"""A second run of a file reports what the first one did, without parsing the text."""

import json
from pathlib import Path

import numpy as np
import pytest

from hloc.cli import main
from hloc.report.source_input import read_snapshots

LOOKUP = """HloModule lookup

ENTRY e {
  table = f32[5,3] parameter(0)
  row = s32[] parameter(1)
  zero = s32[] constant(0)
  found = f32[1,3] dynamic-slice(table, row, zero), dynamic_slice_sizes={1,3}
  ROOT twice = f32[1,3] add(found, found)
}
"""
BOUNDED = """HloModule bounded

ENTRY e {
  x = f32[<=6] parameter(0)
  ROOT y = f32[<=6] negate(x)
}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def lookup(cache_folder: Path) -> str:
    path = cache_folder.with_name("lookup.hlo")
    path.write_text(LOOKUP)
    return str(path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read and parsed, in order."""
    found: list[str] = []

    def watched(name: str) -> object:
        found.append(name)
        return read_snapshots(name)

    monkeypatch.setattr("hloc.cli.compile_job.read_snapshots", watched)
    return found


def _without_times(text: str) -> str:
    return "\n".join(line.partition("  median")[0] for line in text.splitlines())


@pytest.mark.parametrize("options", [["--random=3"], [], ["--print-output=9", "-O1"]], ids=str)
def test_the_second_run_says_the_same(
    lookup: str, read: list[str], options: list[str], capsys: Capture
) -> None:
    said = []
    for _ in range(2):
        assert main(["run", lookup, *options]) == 0
        captured = capsys.readouterr()
        said.append((captured.out, _without_times(captured.err)))
    assert said[0] == said[1]
    assert "out0 = f32[1,3] {" in said[0][0]
    assert read == [lookup]


def test_inputs_from_a_file_go_by_the_names_of_parameters(
    lookup: str, read: list[str], tmp_path: Path
) -> None:
    file, result = str(tmp_path / "in.npz"), tmp_path / "out.npz"
    table = np.arange(15, dtype=np.float32).reshape(5, 3)
    for row in (1, 4):
        np.savez(file, table=table, row=np.int32(row))
        assert main(["run", lookup, f"--inputs={file}", f"--output={result}"]) == 0
        np.testing.assert_array_equal(np.load(result)["out0"], 2 * table[row : row + 1])
    assert read == [lookup]


def test_another_text_other_options_and_comparisons_are_not_kept_runs(
    lookup: str, read: list[str], tmp_path: Path
) -> None:
    assert main(["run", lookup, "-q"]) == 0
    assert main(["run", lookup, "-q", "--fast-math"]) == 0
    assert main(["run", lookup, "-q", "--compare-with=interp"]) == 0
    assert main(["run", lookup, "-q", "--time-passes"]) == 0
    Path(lookup).write_text(LOOKUP.replace("add(", "multiply("))
    assert main(["run", lookup, "-q"]) == 0
    assert len(read) == 5


def test_faults_are_those_of_a_first_run(lookup: str, read: list[str], capsys: Capture) -> None:
    errors = []
    for _ in range(2):
        assert main(["run", lookup, "-q"]) == 0
        assert main(["run", lookup, "-q", "--inputs=/nowhere.npz"]) == 1
        errors.append(capsys.readouterr().err)
    assert errors[0] == errors[1]
    assert main(["run", lookup, "--random=1", "--inputs=x.npz"]) == 2
    assert read == [lookup]


def test_rates_count_the_operations_of_the_module_as_given(lookup: str, capsys: Capture) -> None:
    found = []
    for _ in range(2):
        assert main(["run", lookup, "--format=json", "--memory"]) == 0
        (module,) = json.loads(capsys.readouterr().out)["modules"]
        found.append((module["module"]["flops"], module["run"]["flops"]))
    assert found == [(3, 3), (3, 3)]


def test_arrays_of_dynamic_sizes_are_run_the_usual_way(
    lookup: str, read: list[str], capsys: Capture
) -> None:
    Path(lookup).write_text(BOUNDED)
    for _ in range(2):
        assert main(["run", lookup, "--random=2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_a_program_that_python_kept_gets_its_facts(lookup: str, read: list[str]) -> None:
    import hloc

    hloc.compile(LOOKUP)
    for _ in range(3):
        assert main(["run", lookup, "-q"]) == 0
    assert read == [lookup]
