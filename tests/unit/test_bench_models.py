"""The figures of whole models: ratios, means, faults, and the page made of them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import bench_models, harness, history, model_engines, models_page

HLOC = {"run": 1e-3, "first": 0.1, "memory": 4_000_000}
XLA = {"run": 2e-3, "first": 0.4, "memory": 8_000_000}
RIGHT = {"distance": 1e-6, "wrong": 0, "other_shape": []}
ROW = {"hloc": HLOC, "xla": XLA} | RIGHT
WITH_PEERS = ROW | {"torch": XLA | {"run": 4e-3}, "onnx": XLA | {"run": 0.8e-3}}
FAILED = {"hloc": {"fault": "hloc: exit 1"}, "xla": XLA}
MACHINE = {"cpu": "a processor", "python": "3.11", "system": "Linux"}


def content(rows: dict[str, Any], cores: int = 1) -> dict[str, Any]:
    marked = {name: row | {"commit": "c0ffee"} for name, row in rows.items()}
    head = {"commit": "c0ffee", "date": "2026-11-22", "machine": MACHINE}
    return head | {"cores": cores, "rows": marked}


def test_the_best_peer_is_the_fastest_that_ran() -> None:
    assert bench_models.ratios(ROW) == {"run": 0.5, "best": 0.5, "first": 0.25, "memory": 0.5}
    assert bench_models.ratios(WITH_PEERS)["best"] == 1.25
    broken = ROW | {"onnx": {"fault": "onnx: no file"}}
    assert bench_models.ratios(broken)["best"] == 0.5


def test_means_and_what_is_above_the_best_peer() -> None:
    means, slow = bench_models.summary({"a": ROW, "b": WITH_PEERS, "c": FAILED}, 9).splitlines()
    assert means.startswith("2 of 9 models")
    assert "0.79 of the best peer's (goal 0.7)" in means
    assert slow == "above 1.1 of the best peer: b 1.25"


def test_faults_are_named() -> None:
    assert bench_models.fault(ROW) == ""
    assert bench_models.fault(FAILED) == "hloc: exit 1"
    assert "WRONG: 1" in bench_models.fault(ROW | {"wrong": 1})
    assert "SHAPE: onnx" in bench_models.fault(ROW | {"other_shape": ["onnx"]})


def test_distance_of_results() -> None:
    wanted = np.array([3.0, 4.0], np.float32)
    assert bench_models.distance(wanted, wanted) == 0
    assert bench_models.distance(wanted + np.float32(0.5), wanted) == math.sqrt(0.5) / 5
    assert bench_models.distance(wanted * np.nan, wanted) == math.inf
    assert bench_models.distance(wanted[:1], wanted) == math.inf


def test_constant_weights_are_compared_with_the_best_peer_too() -> None:
    row = WITH_PEERS | {"constant": HLOC | {"run": 0.4e-3}}
    assert bench_models.ratios(row) == bench_models.ratios(WITH_PEERS) | {"constant_best": 0.5}


def test_training_steps_have_no_constant_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step returns its weights, and the next one takes them."""
    monkeypatch.setattr(bench_models, "PACKAGES", dict.fromkeys(model_engines.ENGINES, ()))
    step = SimpleNamespace(trains=True, twin="", dtype="float32")
    decode = SimpleNamespace(trains=False, twin="", dtype="float32")
    assert not bench_models.runs("constant", step)
    assert bench_models.runs("constant", decode)
    assert bench_models.runs("hloc", step)


def test_a_line_of_the_history() -> None:
    line = history.record_of("models", content({"a": ROW, "c": FAILED}), bench_models.ratios)
    assert (line["suite"], line["commit"], line["date"]) == ("models", "c0ffee", "2026-11-22")
    assert line["ratios"] == {"a": {"run": 0.5, "best": 0.5, "first": 0.25, "memory": 0.5}}
    assert set(line["rows"]["1"]) == {"a", "c"}
    line = history.record_of("models", content({"a": ROW}, cores=2), bench_models.ratios)
    assert line["ratios"] == {"a": {"all_cores": 0.5}}
    assert set(line["rows"]) == {"2"}


def test_the_page_has_a_row_per_model_and_says_what_failed() -> None:
    rows = {"a": WITH_PEERS | {"constant": HLOC | {"run": 0.4e-3}}, "c": FAILED}
    text = models_page.page([(content(rows), content({}, cores=2))], [], 3)
    assert "| a | 1 | 0.4 | 2 | 4 |  | 0.8 | 0.50 | 1.25 | 0.50 | 0.10 | 0.25 | 4 | 0.50 |" in text
    assert "- c: hloc: exit 1" in text
    assert "a processor, 1 core" in text
    assert "2 cores" not in text


def test_the_page_has_a_table_for_all_cores_where_that_was_measured() -> None:
    tables = [(content({"a": ROW}), content({"a": WITH_PEERS}, cores=2))]
    text = models_page.page(tables, [], 1)
    assert "On 2 cores:\n" in text
    assert "| a | 1 | 2 | 4 |  | 0.8 | 0.50 | 1.25 |" in text


def test_a_sentence_for_readme() -> None:
    found = models_page.sentence(content({"a": ROW, "c": FAILED}))
    assert found.startswith("a processor: 1 models run in 0.50 of XLA:CPU's time")


def test_each_machine_has_a_table_of_its_own() -> None:
    """The one that was measured last comes first."""
    other = MACHINE | {"cpu": "another processor"}
    first, second = (
        history.record_of("models", content({"a": row}) | {"machine": machine}, bench_models.ratios)
        for row, machine in ((ROW, MACHINE), (WITH_PEERS, other))
    )
    tables = history.tables([first, second], ["a"])
    text = models_page.page(tables, [], 1)
    assert text.index("## another processor\n") < text.index("## a processor\n")
    assert text.count("| a | 1 |") == 2


def test_text_between_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    marks = "<!-- written by make this -->\n", "<!-- end -->\n"
    page.write_text(f"before\n{marks[0]}old\n{marks[1]}after\n")
    for _ in range(2):
        harness.write_between_marks(page, "this", "new\n")
        assert page.read_text() == f"before\n{marks[0]}new\n{marks[1]}after\n"
    with pytest.raises(AssertionError, match="make that"):
        harness.write_between_marks(page, "that", "new\n")


@pytest.mark.parametrize("target", ["bench-models", "bench-suite"])
@pytest.mark.parametrize("page", ["README.md", "docs/status.md"])
def test_the_figures_of_a_page_are_written_by_its_generator(page: str, target: str) -> None:
    """Marks without figures between them are a page that nobody generated."""
    _, _, rest = (harness.ROOT / page).read_text().partition(f"<!-- written by make {target} -->\n")
    assert re.search(r"run 0\.\d\d|run in 0\.\d\d", rest.partition("<!-- end -->")[0])
