"""One small module per opcode, for `hloc ops NAME` and docs/opcodes.md.

Examples of elementwise opcodes are generated, those of opcodes from plug-ins are in their rows.
Tests run all of them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from itertools import count

from hloc.dtypes import dtype_named
from hloc.errors import HloError
from hloc.ir.example import Example
from hloc.ir.opcode import ShapeRequest
from hloc.ops import OPCODES, Opcode
from hloc.shapes import array_shape

_TABLE = """
x: T[4] -> R[4] abs(x)
x: T[4] -> pred[4] is-finite(x)
x: c64[4] -> f32[4] real(x)
x: c64[4] -> f32[4] imag(x)
x: f32[4]; y: f32[4] -> c64[4] complex(x, y)
x: T[4]; y: T[4] -> pred[4] compare(x, y), direction=EQ
p: pred[4]; x: T[4]; y: T[4] -> T[4] select(p, x, y)
low: T[]; x: T[4]; high: T[] -> T[4] clamp(low, x, high)
x: s8[4] -> T[4] convert(x)
x: T[4] -> T[4] bitcast-convert(x)
x: T[4] -> T[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10
x: f32[4]; bits: u32[4] -> T[4] stochastic-convert(x, bits)
# values and moving data
-> x: T[4]
-> c = T[2] constant({ONE, ONE})
-> T[2,2] iota(), iota_dimension=1
x: T[3] -> T[2,3] broadcast(x), dimensions={1}
x: T[2,6] -> T[3,4] reshape(x)
x: T[2,3]{1,0} -> T[3,2]{0,1} bitcast(x)
x: T[2,3] -> T[3,2] transpose(x), dimensions={1,0}
x: T[2,3] -> T[2,3] reverse(x), dimensions={1}
x: T[8] -> T[3] slice(x), slice={[1:7:2]}
x: T[2,3]; y: T[2,1] -> T[2,4] concatenate(x, y), dimensions={1}
x: T[3]; v: T[] -> T[8] pad(x, v), padding=1_2_1
x: T[8]; start: s32[] -> T[3] dynamic-slice(x, start), dynamic_slice_sizes={3}
x: T[8]; u: T[3]; start: s32[] -> T[8] dynamic-update-slice(x, u, start)
x: T[6]; m = s32[] constant(2); n = s32[] constant(3) -> T[2,3] dynamic-reshape(x, m, n)
x: T[4] -> s32[] get-dimension-size(x), dimensions={0}
x: T[4]; n = s32[] constant(3) -> T[<=4] set-dimension-size(x, n), dimensions={0}
x: T[5,3]; i: s32[2] -> T[2,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
x: T[5,3]; i: s32[2]; u: T[2,3] -> T[5,3] scatter(x, i, u), update_window_dims={1},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
    to_apply=combine
# reductions and products
x: T[2,3]; init: T[] -> T[2] reduce(x, init), dimensions={1}, to_apply=combine
x: T[8]; init: T[] -> T[4] reduce-window(x, init), window={size=3 stride=2 pad=1_0},
    to_apply=combine
x: T[4]; s: T[2]; init: T[] -> T[4] select-and-scatter(x, s, init), window={size=2 stride=2},
    select=chosen, scatter=combine
x: T[4]; y: T[4] -> T[4] map(x, y), dimensions={0}, to_apply=combine
x: T[4]; c: T[] -> (T[4], T[]) scan(x, c), dimensions={0}, num_carries=1, to_apply=step
x: T[2,3]; y: T[3,4] -> T[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
x: T[4,3]; y: T[2,3,5]; sizes = s32[2] constant({1, 3}) -> T[4,5] ragged-dot(x, y, sizes),
    lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
x: T[2,8]; y: T[3,8]; a: f8e8m0fnu[2,2]; b: f8e8m0fnu[3,2] -> f32[2,3] scaled-dot(x, y, a, b),
    lhs_contracting_dims={1}, rhs_contracting_dims={1}
x: T[1,8,3]; k: T[3,3,2] -> T[1,8,2] convolution(x, k), window={size=3 pad=1_1},
    dim_labels=b0f_0io->b0f
# order, random bits, linear algebra, normalisation
x: T[5] -> T[5] sort(x), dimensions={0}, to_apply=before
x: T[5] -> (T[2], s32[2]) topk(x), k=2, largest=true
a = T[] constant(ONE); b = T[] constant(ONE) -> T[4] rng(a, b), distribution=rng_uniform
state: u64[2] -> (u64[2], T[4]) rng-bit-generator(state), algorithm=rng_three_fry
-> u64[2] rng-get-and-update-state(), delta=1
x: T[8] -> T[8] fft(x), fft_type=FFT, fft_length={8}
a: T[3,3] -> T[3,3] cholesky(a), lower=true
a: T[3,3]; b: T[3,2] -> T[3,2] triangular-solve(a, b), left_side=true, lower=true,
    transpose_a=NO_TRANSPOSE
x: T[8,2]; scale: T[2]; offset: T[2] -> (T[8,2], T[2], T[2])
    batch-norm-training(x, scale, offset), epsilon=0.001, feature_index=1
x: T[8,2]; scale: T[2]; offset: T[2]; mean: T[2]; variance: T[2] -> T[8,2]
    batch-norm-inference(x, scale, offset, mean, variance), epsilon=0.001, feature_index=1
x: T[8,2]; scale: T[2]; mean: T[2]; variance: T[2]; dy: T[8,2] -> (T[8,2], T[2], T[2])
    batch-norm-grad(x, scale, mean, variance, dy), epsilon=0.001, feature_index=1
# tuples, calls, control flow
x: T[4] -> (T[4], T[4]) tuple(x, x)
x: (s32[], T[4]) -> T[4] get-tuple-element(x), index=1
x: T[4] -> T[4] call(x), to_apply=twice
x: T[4] -> T[4] fusion(x), kind=kLoop, calls=twice
i: s32[]; x: T[4] -> T[4] conditional(i, x, x), branch_computations={same, twice}
x: T[4] -> T[4] opt-barrier(x)
x: T[4] -> T[4] domain(x), domain={kind="sharding", entry={maximal device=0},
    exit={maximal device=0}}
x: T[4]; t = token[] after-all() -> T[4] add-dependency(x, t)
x: T[4] -> T[4] custom-call(x), custom_call_target="Sharding"
# asynchronous forms
x: T[4]; s = ((T[4]), T[4], u32[]) async-start(x), calls=twice;
    u = ((T[4]), T[4], u32[]) async-update(s) -> T[4] async-done(u)
x: T[4]; s = (T[4], T[4], u32[]) copy-start(x) -> T[4] copy-done(s)
# devices
-> u32[] replica-id()
-> u32[] partition-id()
x: T[4] -> T[4] all-reduce(x), replica_groups={}, to_apply=combine
x: T[4]; s = T[4] all-reduce-start(x), replica_groups={}, to_apply=combine
    -> T[4] all-reduce-done(s)
x: T[4] -> T[2] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=combine
x: T[4] -> T[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}
x: T[4]; s = (T[4], T[8]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}
    -> T[8] all-gather-done(s)
x: T[4] -> T[4] all-to-all(x), replica_groups={{0,1}}, dimensions={0}
x: T[4]; out: T[4]; n: s32[2] -> T[4] ragged-all-to-all(x, out, n, n, n, n),
    replica_groups={{0,1}}
x: T[4] -> T[4] collective-broadcast(x), replica_groups={{0,1}}
x: T[4] -> T[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}
x: T[4]; s = (T[4], T[4], u32[], u32[]) collective-permute-start(x),
    source_target_pairs={{0,1},{1,0}} -> T[4] collective-permute-done(s)
t = token[] after-all() -> (T[4], token[]) infeed(t)
x: T[4]; t = token[] after-all() -> token[] outfeed(x, t), outfeed_shape=T[4]
x: T[4]; t = token[] after-all(); s = (T[4], u32[], token[]) send(x, t), channel_id=1
    -> token[] send-done(s), channel_id=1
t = token[] after-all(); s = (T[4], u32[], token[]) recv(t), channel_id=1
    -> (T[4], token[]) recv-done(s), channel_id=1
"""
"""What a module takes and computes, and after the arrow its root; a line that is indented goes on.

An example serves all opcodes in it that have none of their own, as starts do with their ends.
"""

_CALLED = {
    "combine": "x: T[]; y: T[] -> T[] add(x, y)",
    "chosen": "x: T[]; y: T[] -> pred[] compare(x, y), direction=GE",
    "before": "x: T[]; y: T[] -> pred[] compare(x, y), direction=LT",
    "step": "c: T[]; x: T[]; s = T[] add(c, x) -> (T[], T[]) tuple(s, s)",
    "twice": "x: T[4] -> T[4] add(x, x)",
    "same": "-> x: T[4]",
}

_DTYPES = {
    "stochastic-convert": "s8",
    "scaled-dot": "f8e4m3fn",
    "rng-bit-generator": "u32",
    "fft": "c64",
}
"""Element types of the examples that do not take the usual one."""

_STATE = "(s32[], T[4])"
_WHILE = Example(
    f"i = s32[] constant(0)\nx = T[4] parameter(0)\ns = {_STATE} tuple(i, x)\n"
    f"ROOT r = {_STATE} while(s), condition=below, body=step",
    f"below {{\n  s = {_STATE} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(3)\n  ROOT r = pred[] compare(i, n), direction=LT\n}\n\n"
    f"step {{\n  s = {_STATE} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  x = T[4] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n"
    f"  j = s32[] add(i, one)\n  y = T[4] add(x, x)\n  ROOT r = {_STATE} tuple(j, y)\n}}",
)


_OPCODE = re.compile(r" ([a-z][\w-]*)\(")


def _instructions(row: str) -> list[str]:
    """Return the lines of a computation that is written as in `_TABLE`."""
    others, _, root = row.rpartition("-> ")
    items = [item for item in others.rstrip().split("; ") if item]
    items.append(root if re.match(r"\w+(:| =) ", root) else f"r = {root}")
    numbers = count()
    for place, item in enumerate(items):
        name, is_parameter, shape = item.partition(": ")
        if is_parameter:
            items[place] = f"{name} = {shape} parameter({next(numbers)})"
    return [*items[:-1], f"ROOT {items[-1]}"]


def _called(name: str) -> str:
    return "\n  ".join([f"{name} {{", *_instructions(_CALLED[name])]) + "\n}"


@cache
def _examples() -> dict[str, Example]:
    own, others = {"while": _WHILE}, dict[str, Example]()
    for row in re.findall(r"^[^#\n].*", _TABLE.replace("\n    ", " "), re.MULTILINE):
        lines = _instructions(row)
        called = [_called(name) for name in re.findall(r"\w+", row) if name in _CALLED]
        opcodes = _OPCODE.findall("\n".join(lines))
        dtype = _DTYPES.get(opcodes[-1], "f32")
        own[opcodes[-1]] = example = Example("\n".join(lines), "\n\n".join(called), dtype)
        others = {**dict.fromkeys(opcodes, example), **others}
    return {**others, **own}


_TYPES = ("f32", "s32", "c64")
"""Element types of examples of elementwise opcodes: the first that the shape rule accepts."""


def example_of(name: str) -> Example:
    """Return the example of an opcode: from its row, from this table, or with operands of one type.

    Raises:
        KeyError: a row that is not elementwise, or has attributes, has no example.
    """
    row = OPCODES[name]
    if row.example is not None:
        return row.example
    if name in _examples() or not row.elementwise or row.attributes is not None:
        return _examples()[name]
    operands = "xyz"[: row.arity]
    lines = [f"{x} = T[4] parameter({number})" for number, x in enumerate(operands)]
    lines.append(f"ROOT r = T[4] {name}({', '.join(operands)})")
    return Example("\n".join(lines), dtype=_first_type(row, len(operands)))


def _first_type(row: Opcode, count: int) -> str:
    for dtype in _TYPES:
        shape = array_shape(dtype_named(dtype), 4)
        with suppress(HloError):
            row.infer(ShapeRequest((shape,) * count, declared=shape))
            return dtype
    return _TYPES[0]
