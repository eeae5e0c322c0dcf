"""Multiply units of k and add them to sums: one vector instruction, or a few."""

from __future__ import annotations

from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter
from hloc.codegen.cpu.emitters.vector_loads import vector_type
from hloc.codegen.llvm.target import Target
from hloc.dtypes import BF16, S8, S16, U8

_PAIR_SUMS = {
    256: ("avx2", "@llvm.x86.avx2.pmadd.wd"),
    512: ("avx512bw", "@llvm.x86.avx512.pmaddw.d.512"),
}
"""Bits of a vector, and what multiplies its s16 and sums neighbouring products as s32."""


def has_pair_sums(target: Target) -> bool:
    """True if an instruction of the machine sums the products of pairs of s16."""
    return target.vector_bits in _PAIR_SUMS and target.has(_PAIR_SUMS[target.vector_bits][0])


_DOT_PRODUCTS = {
    S8: "@llvm.aarch64.neon.sdot.v4i32.v16i8",
    U8: "@llvm.aarch64.neon.udot.v4i32.v16i8",
}
"""Of ARM: what multiplies bytes and sums neighbouring products in fours."""


def has_dot_products(target: Target) -> bool:
    """True if an instruction of the machine sums four products of bytes, both signed or not."""
    return target.is_aarch64 and target.has("dotprod")


def excess_units(lanes: int) -> str:
    """Return the bias of packed units of signed bytes, 128 in every byte."""
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
    if arithmetic.group == 4:
        eighths = f"<{4 * lanes} x i8>"
        x, y = (fn.value(f"bitcast {bits} {z} to {eighths}") for z in (x, y))
        if not arithmetic.bias:
            operands = (v, total), (eighths, y), (eighths, x)
            return fn.call(v, _DOT_PRODUCTS[arithmetic.operand], *operands)
        operands = (v, total), (eighths, x), (eighths, y)
        return fn.call(v, "@llvm.x86.avx512.vpdpbusd.512", *operands)
    if arithmetic.operand is S16:
        pairs = f"<{2 * lanes} x i16>"
        x, y = (fn.value(f"bitcast {bits} {z} to {pairs}") for z in (x, y))
        return multiply_pairs(w, lanes, x, y, total)
    if arithmetic.total.is_float:
        product = fn.value(f"fmul contract {v} {x}, {y}")
        return fn.value(f"fadd contract {v} {total}, {product}")
    product = fn.value(f"mul {v} {x}, {y}")
    return fn.value(f"add {v} {total}, {product}")


def multiply_pairs(w: RoutineWriter, lanes: int, x: str, y: str, total: str) -> str:
    """Return `total` plus the products of the s16 of `x` and `y`, two in each of `lanes` s32.

    Sums of products of bytes are exact; those of others wrap, as s32 does.
    """
    pairs, v = f"<{2 * lanes} x i16>", f"<{lanes} x i32>"
    product = w.fn.call(v, _PAIR_SUMS[32 * lanes][1], (pairs, x), (pairs, y))
    return w.fn.value(f"add {v} {total}, {product}")
