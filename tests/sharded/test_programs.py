"""All sharded JAX programs of the benchmark give XLA's answer in every way (minutes; needs jax)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_sharded
from benchmarks.sharded import dump, ways
from benchmarks.sharded.page import right

pytestmark = [pytest.mark.sharded, pytest.mark.jax, pytest.mark.slow]


@pytest.fixture(scope="session", params=dump.PARTITIONERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    path = tmp_path_factory.mktemp(request.param)
    dump.dump(path, [], request.param)
    return path


@pytest.mark.parametrize("way", ways.WAYS)
def test_every_program_gives_the_answer_of_xla(folder: Path, way: str) -> None:
    reason = ways.absent(way)
    if reason:
        pytest.skip(reason)
    rows = bench_sharded.chosen(folder, [])
    assert len(rows) >= 150
    able = bench_sharded.able(way, rows)
    found: dict[str, Any] = dict(bench_sharded.run_way(way, folder, able))
    wrong = {n: bench_sharded.complaint(row) for n, row in found.items() if not right(row)}
    assert not wrong
