"""`hloc bench` times engines in turn, and says how their runs spread."""

import json
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.cli.bench_command import Measured, in_turn, ratios
from hloc.report.run_report import Timing

Capture = pytest.CaptureFixture[str]
EXAMPLE = str(Path(__file__).parents[3] / "examples/softmax_relu.hlo")


def test_engines_take_turns() -> None:
    """A busy moment of the machine then hits all of them; the first runs are not counted."""
    order = []

    def engine(name: str, seconds: float):  # type: ignore[no-untyped-def]
        def runs(count: int) -> list[float]:
            order.append(name)
            return [seconds] * count

        return runs

    first, second = in_turn({"a": engine("a", 0.005), "b": engine("b", 0.01)}, 3)
    assert order == ["a", "a", "b", "b", *"ababab"]
    assert (len(first.all.seconds), len(second.all.seconds)) == (3 * 4, 3 * 2)
    assert ratios([first, second]) == [0.5] * 3


def test_the_ratio_is_of_medians_of_each_stretch() -> None:
    a = Measured("a", (Timing((1.0, 2.0, 9.0)), Timing((4.0,))))
    b = Measured("b", (Timing((4.0,)), Timing((1.0,))))
    assert ratios([a, b]) == [0.5, 4.0]
    assert a.all.seconds == (1.0, 2.0, 4.0, 9.0)


def test_the_table_has_a_row(capsys: Capture) -> None:
    assert main(["bench", EXAMPLE, "--repeat=1", "-O1"]) == 0
    head, columns, row = capsys.readouterr().out.splitlines()
    assert "random, seed 0, all cores" in head
    assert columns.split() == ["median", "least", "p95", "runs", "rate"]
    assert row.startswith("hloc -O1")


def test_data_and_kernels(capsys: Capture) -> None:
    words = ["bench", EXAMPLE, "--repeat=2", "--profile", "--format=json", "--threads=1"]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    (engine,) = data["engines"]
    assert engine["least_seconds"] <= engine["median_seconds"] <= engine["p95_seconds"]
    assert len(engine["stretch_medians"]) == 2
    assert data["kernels"]
    assert data["threads"] == 1


def test_bad_use_is_refused(capsys: Capture, tmp_path: Path) -> None:
    assert main(["bench", EXAMPLE, EXAMPLE]) == 2
    assert main(["bench", str(tmp_path / "none.hlo")]) == 1
    assert "cannot read" in capsys.readouterr().err
