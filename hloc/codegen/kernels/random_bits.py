"""rng-bit-generator: Threefry-2x32 and Philox-4x32, bit for bit as XLA counts.

Sources: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); the order of counters
is that of XLA's RngBitGenerator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from hloc.codegen.builder.index import row_major_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.dtypes import DTYPES, U32, U64, DType
from hloc.ir.instruction import Instruction
from hloc.ops.random_bits import split_dimension
from hloc.ops.rows.sort_random import check_generator
from hloc.shapes import array_leaves

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a generator; every part of the outermost loop writes the new state as well."""
    root = root_of(inst)
    loops = loops_of(root)
    return KernelPlan(partial(_emit, loops), loops[0] if loops else 1)


def _emit(loops: list[int], k: KernelContext) -> None:
    """Write new state and bits."""
    state = read_state(k)
    with k.body.nest(loops, range(len(loops)), (k.begin, k.end)) as at:
        write_bits(k, state, at)
    write_state(k, state)


def loops_of(root: Instruction) -> list[int]:
    """Return the sizes of the loops; each iteration encrypts one counter."""
    bits = array_leaves(root.shape)[-1]
    if root.attributes.algorithm != "rng_three_fry":
        return [_counters(bits.dims, bits.dtype)]
    return list(bits.dims) if bits.dtype.bits == 64 else _half(bits.dims)


def read_state(k: KernelContext) -> list[Value]:
    """Return the words of the state."""
    check_generator(k.root)
    operand = k.root.operands[0]
    return [k.read(operand, (i,)) for i in range(operand.array.dims[0])]


def write_bits(k: KernelContext, state: list[Value], at: Sequence[IndexValue]) -> None:
    """Write the elements of iteration `at` of the loops."""
    if k.root.attributes.algorithm != "rng_three_fry":
        _philox(k, state, at[0])
    elif k.outputs[-1].dtype.bits == 64:
        _threefry_wide(k, state, at)
    else:
        _threefry(k, state, at)


def write_state(k: KernelContext, state: list[Value]) -> None:
    """Write the state after all counters; an old form of the opcode does not return it."""
    if len(k.outputs) < 2:
        return
    steps = prod(loops_of(k.root))
    if k.root.attributes.algorithm == "rng_three_fry":
        new = [state[0], _added(k.b, state[1], steps, k)]
    else:
        low, high = _philox_counter(state)
        new = [state[0], *_advanced(k.b, low, high, k.b.const(U64, steps))][: len(state)]
    for i, value in enumerate(new):
        k.outputs[0].store(k.math, (i,), value)


def _halves(b: LlvmBuilder, x: Value) -> list[Value]:
    """Return the low and the high word of a u64."""
    high = b.convert(b.lshr(x, b.const(U64, 32)), U32)
    return [b.convert(x, U32), high]


def _wide(b: LlvmBuilder, low: Value, high: Value) -> Value:
    """Return the u64 of two words."""
    upper = b.shl(b.convert(high, U64), b.const(U64, 32))
    return b.or_(b.convert(low, U64), upper)


def _store(k: KernelContext, output: IrArray, index: Sequence[IndexValue], bits: Value) -> None:
    unsigned = DTYPES[f"u{output.dtype.bits}"]
    value = k.b.bitcast(k.b.convert(bits, unsigned), output.dtype)
    output.store(k.math, tuple(index), value)


def _added(b: LlvmBuilder, start: Value, steps: IndexValue, k: KernelContext) -> Value:
    return b.iadd(start, b.convert(k.math.value(steps), U64))


# ---------------------------------------------------------------- Threefry


def _threefry_wide(k: KernelContext, state: list[Value], at: Sequence[IndexValue]) -> None:
    """Write one element of 64 bits."""
    output = k.outputs[-1]
    number = k.math.linear(at, row_major_strides(output.dims))
    x = _threefry_words(k.b, state[0], _added(k.b, state[1], number, k))
    _store(k, output, at, _wide(k.b, *x))


def _threefry(k: KernelContext, state: list[Value], at: Sequence[IndexValue]) -> None:
    """Write two elements, adjacent along the split dimension."""
    output = k.outputs[-1]
    dims = output.dims
    split = split_dimension(dims)
    number = k.math.linear(at, row_major_strides(_half(dims)))
    x = _threefry_words(k.b, state[0], _added(k.b, state[1], number, k))
    for which in (0, 1):
        index = list(at)
        inside = k.body.all_of([])
        if dims:
            index[split] = k.math.add(k.math.mul(at[split], 2), which)
            if which and dims[split] % 2:
                inside = k.math.compare("LT", index[split], dims[split])
        elif which:
            continue
        with k.body.when(inside):
            _store(k, output, index, x[which])


def _half(dims: Sequence[int]) -> list[int]:
    """Return the sizes of the loops whose iterations produce two words each."""
    split = split_dimension(dims)
    return [(n + 1) // 2 if d == split else n for d, n in enumerate(dims)]


def _threefry_words(b: LlvmBuilder, key: Value, counter: Value) -> list[Value]:
    """Encrypt one counter with 20 rounds."""
    k0, k1 = _halves(b, key)
    keys = [k0, k1, b.xor(b.xor(k0, k1), b.const(U32, _PARITY))]
    x0, x1 = _halves(b, counter)
    x0, x1 = b.iadd(x0, keys[0]), b.iadd(x1, keys[1])
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = b.iadd(x0, x1)
            left = b.shl(x1, b.const(U32, rotation))
            x1 = b.xor(b.or_(left, b.lshr(x1, b.const(U32, 32 - rotation))), x0)
        x0 = b.iadd(x0, keys[(group + 1) % 3])
        x1 = b.iadd(b.iadd(x1, keys[(group + 2) % 3]), b.const(U32, group + 1))
    return [x0, x1]


# ---------------------------------------------------------------- Philox


def _philox(k: KernelContext, state: list[Value], i: IndexValue) -> None:
    """Write the two or four elements of counter number `i`."""
    b, output = k.b, k.outputs[-1]
    elements = prod(output.dims)
    per_counter = _per_counter(output.dtype)
    low, high = _philox_counter(state)
    words = _philox_words(b, state[0], _advanced(b, low, high, b.convert(k.math.value(i), U64)))
    if per_counter == 2:
        words = [_wide(b, words[0], words[1]), _wide(b, words[2], words[3])]
    for which, word in enumerate(words):
        number = k.math.add(k.math.mul(i, per_counter), which)
        inside = k.body.all_of([])
        if elements % per_counter:
            inside = k.math.compare("LT", number, elements)
        with k.body.when(inside):
            _store(k, output, k.math.delinear(number, output.dims), word)


def _philox_counter(state: list[Value]) -> tuple[Value, Value]:
    """Return the words of the counter; if the state has two, the upper one is the key."""
    return state[1], state[2] if len(state) == 3 else state[0]


def _per_counter(dtype: DType) -> int:
    """Return how many elements one counter produces."""
    return 2 if dtype.bits == 64 else 4


def _counters(dims: Sequence[int], dtype: DType) -> int:
    return -(-prod(dims) // _per_counter(dtype))


def _advanced(b: LlvmBuilder, low: Value, high: Value, steps: Value) -> list[Value]:
    """Return a counter of two u64 plus `steps`."""
    total = b.iadd(low, steps)
    carry = b.convert(b.compare("LT", total, steps), U64)
    return [total, b.iadd(high, carry)]


def _philox_words(b: LlvmBuilder, key: Value, counter: list[Value]) -> list[Value]:
    """Encrypt one counter with 10 rounds."""
    keys = _halves(b, key)
    x = [*_halves(b, counter[0]), *_halves(b, counter[1])]
    factors = [b.const(U64, factor) for factor in _PHILOX_FACTORS]
    for _ in range(10):
        low0, high0 = _halves(b, b.imul(b.convert(x[0], U64), factors[0]))
        low1, high1 = _halves(b, b.imul(b.convert(x[2], U64), factors[1]))
        x = [b.xor(b.xor(high1, x[1]), keys[0]), low1, b.xor(b.xor(high0, x[3]), keys[1]), low0]
        keys = [b.iadd(w, b.const(U32, s)) for w, s in zip(keys, _PHILOX_STEPS, strict=True)]
    return x


EMITTER = Emitter("rng-bit-generator", plan, roots=("rng-bit-generator",))
