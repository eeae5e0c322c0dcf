"""The figures of whole models: ratios, means, faults, and the page made of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import bench_models, models_page

HLOC = {"run": 1e-3, "first": 0.1, "memory": 4_000_000}
XLA = {"run": 2e-3, "first": 0.4, "memory": 8_000_000}
RIGHT = {"distance": 1e-6, "wrong": 0, "other_shape": []}
ROW = {"hloc": HLOC, "xla": XLA} | RIGHT
WITH_PEERS = ROW | {"torch": XLA | {"run": 4e-3}, "onnx": XLA | {"run": 0.8e-3}}
FAILED = {"hloc": {"fault": "hloc: exit 1"}, "xla": XLA}
MACHINE = {"cpu": "a processor", "python": "3.11", "system": "Linux"}


def content(rows: dict[str, Any]) -> dict[str, Any]:
    return {"commit": "c0ffee", "machine": MACHINE, "cores": 1, "rows": rows}


def test_the_best_peer_is_the_fastest_that_ran() -> None:
    assert bench_models.ratios(ROW) == {"run": 0.5, "best": 0.5, "first": 0.25, "memory": 0.5}
    assert bench_models.ratios(WITH_PEERS)["best"] == 1.25
    broken = ROW | {"onnx": {"fault": "onnx: no file"}}
    assert bench_models.ratios(broken)["best"] == 0.5


def test_means_and_what_is_above_the_best_peer() -> None:
    means, slow = bench_models.summary({"a": ROW, "b": WITH_PEERS, "c": FAILED}).splitlines()
    assert means.startswith("2 of 3 models")
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


def test_a_line_of_the_history() -> None:
    line = bench_models.history_line(content({"a": ROW, "c": FAILED}))
    assert (line["suite"], line["commit"]) == ("models", "c0ffee")
    assert line["machine"]["cores"] == 1
    assert line["ratios"] == {"a": {"run": 0.5, "best": 0.5, "first": 0.25, "memory": 0.5}}


def test_the_page_has_a_row_per_model_and_says_what_failed() -> None:
    text = models_page.page(content({"a": WITH_PEERS, "c": FAILED}), [])
    assert "| a | 1 | 2 | 4 |  | 0.8 | 0.50 | 1.25 | 0.10 | 0.25 | 4 | 0.50 |" in text
    assert "- c: hloc: exit 1" in text
    assert "a processor, 1 core" in text


def test_readme_gets_the_means_between_its_marks() -> None:
    start, end = models_page.README_MARKS
    text = f"before\n{start}old\n{end}after\n"
    found = models_page.in_readme(text, content({"a": ROW, "c": FAILED}))
    assert found.startswith(f"before\n{start}On one core (a processor), 1 whole models")
    assert "run in 0.50 of XLA:CPU's time" in found
    assert "old" not in found
    assert found.endswith(f"{end}after\n")
    assert models_page.in_readme(found, content({"a": ROW})) == found


def test_runs_of_one_commit_are_joined(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    parts = content({"a": ROW, "b": ROW}), content({"b": FAILED}), content({}) | {"cores": 2}
    for file, part in zip(files, parts, strict=True):
        file.write_text(json.dumps({"commit": "1"} | part))
    assert bench_models.joined(files[:2])["rows"] == {"a": ROW, "b": FAILED}
    with pytest.raises(ValueError, match="cores: 1 and 2"):
        bench_models.joined(files)
