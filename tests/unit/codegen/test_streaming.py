"""Large results are written past the caches, and nothing is lost at the ends of rows and parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloc.codegen.cpu.emitters import streaming
from hloc.codegen.llvm.object_file import assembly_text
from hloc.codegen.llvm.target import target_for
from tests.unit.codegen.harness import (
    Compiled,
    emit,
    evaluate,
    kernel_text,
    parse_text,
    random_arrays,
)

Array = np.ndarray[Any, Any]

ADD = """HloModule m
ENTRY e {{
  x = {0} parameter(0)
  y = {0} parameter(1)
  ROOT r = {0} add(x, y)
}}
"""
BIAS = """HloModule m
fused {{
  x = f32[{0},{1}] parameter(0)
  b = f32[{1}] parameter(1)
  w = f32[{0},{1}] broadcast(b), dimensions={{1}}
  ROOT r = f32[{0},{1}] multiply(x, w)
}}
ENTRY e {{
  x = f32[{0},{1}] parameter(0)
  b = f32[{1}] parameter(1)
  ROOT f = f32[{0},{1}] fusion(x, b), kind=kLoop, calls=fused
}}
"""


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STREAMED_BYTES", 1)
    monkeypatch.setattr(streaming, "_ROW_VECTORS", 1)


def _check(text: str, extent: int, parts: list[int], shift: int) -> None:
    """Run the root's kernel in parts, the result `shift` elements behind an aligned address."""
    computation = parse_text(text).entry
    kernel = emit(computation.root)
    if target_for().triple.startswith("x86_64"):
        assert "!nontemporal" in kernel.text
    arguments = random_arrays(text)
    expected = np.ascontiguousarray(evaluate(computation, arguments))
    item = expected.itemsize
    memory = np.full(expected.nbytes + 256, 0x5A, np.uint8)
    at = -memory.ctypes.data % 64 + shift * item
    result = memory[at : at + expected.nbytes]
    compiled = Compiled(kernel)
    ends = [*parts, extent]
    for begin, end in zip([0, *parts], ends, strict=True):
        compiled.run([*map(np.ascontiguousarray, arguments), result], begin, end)
    np.testing.assert_array_equal(result, expected.reshape(-1).view(np.uint8))
    assert set(memory[:at]) | set(memory[at + expected.nbytes :]) == {0x5A}


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "s8", "u16", "s64"])
@pytest.mark.parametrize("size", [64, 127, 5003])
@pytest.mark.parametrize("shift", [0, 3])
def test_every_element_of_a_sum_is_written_and_no_other(dtype: str, size: int, shift: int) -> None:
    _check(ADD.format(f"{dtype}[{size}]"), size, [], shift)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("shift", [0, 5])
def test_parts_may_be_shorter_than_a_vector(shift: int) -> None:
    _check(ADD.format("f32[1027]"), 1027, [256, 512, 1024], shift)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (3, 65), (7, 130), (5, 1024)])
@pytest.mark.parametrize("shift", [0, 1])
def test_rows_of_any_length(rows: int, columns: int, shift: int) -> None:
    extent = rows if rows > 1 else columns
    _check(BIAS.format(rows, columns), extent, [1] if rows > 1 else [], shift)


@pytest.mark.parametrize(
    ("triple", "cpu", "word"),
    [
        ("x86_64", "x86-64", "movntps"),
        ("x86_64", "x86-64-v3", "vmovntps"),
        ("x86_64", "x86-64-v4", "vmovntps"),
        ("aarch64", "", ""),
    ],
)
def test_processors_have_a_word_for_it(triple: str, cpu: str, word: str) -> None:
    target = target_for(triple, cpu)
    inst = parse_text(ADD.format("f32[16777216]")).entry.root
    kernel = emit(inst, target=target)
    assembly = assembly_text(kernel_text(kernel), target, kernel.level or 0)
    assert (word in assembly and "sfence" in assembly) if word else "stnp" not in assembly


@pytest.mark.parametrize("shape", ["f32[16777215]", "c64[16777216]"])
def test_what_is_small_or_has_no_lanes_is_written_as_usual(shape: str) -> None:
    assert "!nontemporal" not in emit(parse_text(ADD.format(shape)).entry.root).text


def test_a_result_in_place_is_written_as_usual() -> None:
    inst = parse_text(ADD.format("f32[33554432]")).entry.root
    assert "!nontemporal" not in emit(inst, aliased=(0,)).text
    if target_for().triple.startswith("x86_64"):
        assert "!nontemporal" in emit(inst).text
