"""The Python of docs/gpu.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hloc.codegen.gpu.emitters import table
from tests.unit.gpu.simulate import check, compiled, entry

ROOT = Path(__file__).resolve().parents[3]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "gpu.md").read_text(), re.DOTALL)


def test_the_example_of_the_host_build_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (text,) = (block for block in BLOCKS if "HostDevice" in block)
    exec(text, {})


@pytest.mark.parametrize("count", [1, 256, 1000])
def test_the_new_kernel_is_right_and_reads_in_order(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = (block for block in BLOCKS if "EMITTER =" in block)
    found: dict[str, Any] = {"__name__": "docs"}
    exec(text, found)
    monkeypatch.setattr(table, "EMITTERS", (found["EMITTER"], *table.EMITTERS))
    module = entry(f"f32[{count}]", f"f32[{count}] reverse(p0), dimensions={{0}}")
    assert ".shared" in compiled(module, 0).ptx
    check(module, 0)
