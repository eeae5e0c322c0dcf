"""Arrays of zeros are cleared by the C library, in parts as well, and nothing beside them."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.emitters.movement import zeros
from hloc.driver import generate
from hloc.options import CompileOptions
from tests.unit.codegen.emitters import emitter_for
from tests.unit.codegen.harness import Compiled, emit, parse_text

TEXT = """HloModule m
fused {{
  c = {0}[] constant({1})
  ROOT b = {0}[{2}] broadcast(c), dimensions={{}}
}}
ENTRY e {{ ROOT f = {0}[{2}] fusion(), kind=kLoop, calls=fused }}
"""


def _is_cleared(dtype: str, value: str, dims: str) -> bool:
    root = parse_text(TEXT.format(dtype, value, dims)).entry.root
    return emitter_for(root) is zeros.EMITTER


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8", "u64", "c64"])
def test_parts_are_cleared_and_no_byte_beside_them(dtype: str) -> None:
    value = "(0, 0)" if dtype == "c64" else "0"
    root = parse_text(TEXT.format(dtype, value, "40,25")).entry.root
    kernel = emit(root)
    assert "@llvm.memset" in kernel.text
    item = root.array.dtype.storage_bytes
    memory = np.full((2 + 1000) * item, 0x5A, np.uint8)
    result = memory[item : 1001 * item]
    compiled = Compiled(kernel)
    compiled.run([result], 300, 1000)
    assert set(result[: 300 * item]) == {0x5A}
    compiled.run([result], 0, 300)
    assert not result.any()
    assert set(memory[:item]) | set(memory[1001 * item :]) == {0x5A}


def test_bits_other_than_zero_are_written() -> None:
    assert _is_cleared("pred", "false", "1000")
    assert not _is_cleared("pred", "true", "1000")
    assert not _is_cleared("f32", "-0.0", "1000")
    assert not _is_cleared("f32", "1", "1000")


def test_what_an_operand_holds_does_not_count() -> None:
    """Kernels of equal instructions are one, whatever their operands are."""
    text = """HloModule m
ENTRY e {
  zero = s64[] constant(0)
  x = s64[] parameter(0)
  a = s64[100] broadcast(zero), dimensions={}
  b = s64[100] broadcast(x), dimensions={}
  ROOT r = (s64[100], s64[100]) tuple(a, b)
}"""
    a, b = hloc.compile(text, opt_level=0)(np.array(7, np.int64))
    assert (set(a), set(b)) == ({0}, {7})


def test_few_and_very_many_are_stored() -> None:
    assert not _is_cleared("f32", "0", "10")
    assert not _is_cleared("f32", "0", "4096,4096")


def test_clearing_takes_no_object_of_its_own() -> None:
    module = parse_text(TEXT.format("f32", "0", "1000"))
    compiled = generate(module, CompileOptions(flush_subnormals=True))
    assert isinstance(compiled, CpuModule)
    assert len(compiled.units) == 1
