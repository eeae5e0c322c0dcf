"""Multiply units of k and add them to sums: one vector instruction, or a few."""

from __future__ import annotations

from hloc.codegen.cpu.emitters.gemm.tile_arithmetic import Arithmetic
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter
from hloc.codegen.cpu.emitters.vector_loads import vector_type
from hloc.dtypes import BF16, S8


def excess_units(lanes: int) -> str:
    """Return what packed units of signed bytes have too much, 128 in every byte."""
    return "<" + ", ".join(["i32 -2139062144"] * lanes) + ">"


def multiply_units(
    w: RoutineWriter, arithmetic: Arithmetic, lanes: int, x: str, y: str, total: str
) -> str:
    """Return `total` plus the products of the units of `x` and `y`, in all lanes."""
    fn, v = w.fn, vector_type(arithmetic.total, lanes)
    bits = v if arithmetic.group == 1 else f"<{lanes} x i32>"
    if arithmetic.operand is BF16:
        halves = f"<{2 * lanes} x bfloat>"
        x, y = (fn.value(f"bitcast {bits} {z} to {halves}") for z in (x, y))
        operands = (v, total), (halves, x), (halves, y)
        return fn.call(v, "@llvm.x86.avx512bf16.dpbf16ps.512", *operands)
    if arithmetic.operand is S8:
        eighths = f"<{4 * lanes} x i8>"
        x, y = (fn.value(f"bitcast {bits} {z} to {eighths}") for z in (x, y))
        operands = (v, total), (eighths, x), (eighths, y)
        return fn.call(v, "@llvm.x86.avx512.vpdpbusd.512", *operands)
    if arithmetic.total.is_float:
        product = fn.value(f"fmul contract {v} {x}, {y}")
        return fn.value(f"fadd contract {v} {total}, {product}")
    product = fn.value(f"mul {v} {x}, {y}")
    return fn.value(f"add {v} {total}, {product}")
