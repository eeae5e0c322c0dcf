"""One small module per opcode, for `hloc ops NAME` and docs/opcodes.md.

Examples of elementwise opcodes are generated, those of opcodes from plug-ins stand in their rows.
Tests run all of them.
"""

from __future__ import annotations

from contextlib import suppress

from hloc.dtypes import dtype_named
from hloc.errors import HloError
from hloc.ir.example import Example
from hloc.ir.opcode import ShapeRequest
from hloc.ops import OPCODES, Opcode
from hloc.shapes import array_shape


def _reducer(opcode: str, dtype: str = "T") -> str:
    return (
        f"combine {{\n  x = {dtype}[] parameter(0)\n  y = {dtype}[] parameter(1)\n"
        f"  ROOT r = {dtype}[] {opcode}(x, y)\n}}"
    )


_ORDER = (
    "before {\n  x = T[] parameter(0)\n  y = T[] parameter(1)\n"
    "  ROOT r = pred[] compare(x, y), direction=LT\n}"
)


_STATE = "(s32[], T[4])"

_EXAMPLES: dict[str, Example] = {
    "abs": Example("x = T[4] parameter(0)\nROOT r = R[4] abs(x)"),
    "is-finite": Example("x = T[4] parameter(0)\nROOT r = pred[4] is-finite(x)"),
    "real": Example("x = c64[4] parameter(0)\nROOT r = f32[4] real(x)"),
    "imag": Example("x = c64[4] parameter(0)\nROOT r = f32[4] imag(x)"),
    "complex": Example(
        "x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nROOT r = c64[4] complex(x, y)"
    ),
    "compare": Example(
        "x = T[4] parameter(0)\ny = T[4] parameter(1)\nROOT r = pred[4] compare(x, y), direction=EQ"
    ),
    "select": Example(
        "p = pred[4] parameter(0)\nx = T[4] parameter(1)\ny = T[4] parameter(2)\n"
        "ROOT r = T[4] select(p, x, y)"
    ),
    "clamp": Example(
        "low = T[] parameter(0)\nx = T[4] parameter(1)\nhigh = T[] parameter(2)\n"
        "ROOT r = T[4] clamp(low, x, high)"
    ),
    "convert": Example("x = s8[4] parameter(0)\nROOT r = T[4] convert(x)"),
    "bitcast-convert": Example("x = T[4] parameter(0)\nROOT r = T[4] bitcast-convert(x)"),
    "reduce-precision": Example(
        "x = T[4] parameter(0)\n"
        "ROOT r = T[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10"
    ),
    "stochastic-convert": Example(
        "x = f32[4] parameter(0)\nbits = u32[4] parameter(1)\n"
        "ROOT r = T[4] stochastic-convert(x, bits)",
        dtype="s8",
    ),
    # ---- values and moving data
    "parameter": Example("ROOT x = T[4] parameter(0)"),
    "constant": Example("ROOT c = T[2] constant({ONE, ONE})"),
    "iota": Example("ROOT r = T[2,2] iota(), iota_dimension=1"),
    "broadcast": Example("x = T[3] parameter(0)\nROOT r = T[2,3] broadcast(x), dimensions={1}"),
    "reshape": Example("x = T[2,6] parameter(0)\nROOT r = T[3,4] reshape(x)"),
    "bitcast": Example("x = T[2,3]{1,0} parameter(0)\nROOT r = T[3,2]{0,1} bitcast(x)"),
    "transpose": Example("x = T[2,3] parameter(0)\nROOT r = T[3,2] transpose(x), dimensions={1,0}"),
    "reverse": Example("x = T[2,3] parameter(0)\nROOT r = T[2,3] reverse(x), dimensions={1}"),
    "slice": Example("x = T[8] parameter(0)\nROOT r = T[3] slice(x), slice={[1:7:2]}"),
    "concatenate": Example(
        "x = T[2,3] parameter(0)\ny = T[2,1] parameter(1)\n"
        "ROOT r = T[2,4] concatenate(x, y), dimensions={1}"
    ),
    "pad": Example(
        "x = T[3] parameter(0)\nv = T[] parameter(1)\nROOT r = T[8] pad(x, v), padding=1_2_1"
    ),
    "dynamic-slice": Example(
        "x = T[8] parameter(0)\nstart = s32[] parameter(1)\n"
        "ROOT r = T[3] dynamic-slice(x, start), dynamic_slice_sizes={3}"
    ),
    "dynamic-update-slice": Example(
        "x = T[8] parameter(0)\nu = T[3] parameter(1)\nstart = s32[] parameter(2)\n"
        "ROOT r = T[8] dynamic-update-slice(x, u, start)"
    ),
    "dynamic-reshape": Example(
        "x = T[6] parameter(0)\nm = s32[] constant(2)\nn = s32[] constant(3)\n"
        "ROOT r = T[2,3] dynamic-reshape(x, m, n)"
    ),
    "get-dimension-size": Example(
        "x = T[4] parameter(0)\nROOT r = s32[] get-dimension-size(x), dimensions={0}"
    ),
    "set-dimension-size": Example(
        "x = T[4] parameter(0)\nn = s32[] constant(3)\n"
        "ROOT r = T[<=4] set-dimension-size(x, n), dimensions={0}"
    ),
    "gather": Example(
        "x = T[5,3] parameter(0)\ni = s32[2] parameter(1)\nROOT r = T[2,3] gather(x, i), "
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        "slice_sizes={1,3}"
    ),
    "scatter": Example(
        "x = T[5,3] parameter(0)\ni = s32[2] parameter(1)\nu = T[2,3] parameter(2)\n"
        "ROOT r = T[5,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine",
        _reducer("add"),
    ),
    # ---- reductions and products
    "reduce": Example(
        "x = T[2,3] parameter(0)\ninit = T[] parameter(1)\n"
        "ROOT r = T[2] reduce(x, init), dimensions={1}, to_apply=combine",
        _reducer("add"),
    ),
    "reduce-window": Example(
        "x = T[8] parameter(0)\ninit = T[] parameter(1)\n"
        "ROOT r = T[4] reduce-window(x, init), window={size=3 stride=2 pad=1_0}, to_apply=combine",
        _reducer("add"),
    ),
    "select-and-scatter": Example(
        "x = T[4] parameter(0)\ns = T[2] parameter(1)\ninit = T[] parameter(2)\n"
        "ROOT r = T[4] select-and-scatter(x, s, init), window={size=2 stride=2}, select=chosen, "
        "scatter=combine",
        "chosen {\n  x = T[] parameter(0)\n  y = T[] parameter(1)\n"
        "  ROOT r = pred[] compare(x, y), direction=GE\n}\n\n" + _reducer("add"),
    ),
    "map": Example(
        "x = T[4] parameter(0)\ny = T[4] parameter(1)\n"
        "ROOT r = T[4] map(x, y), dimensions={0}, to_apply=combine",
        _reducer("add"),
    ),
    "scan": Example(
        "x = T[4] parameter(0)\nc = T[] parameter(1)\n"
        "ROOT r = (T[4], T[]) scan(x, c), dimensions={0}, num_carries=1, to_apply=step",
        "step {\n  c = T[] parameter(0)\n  x = T[] parameter(1)\n  s = T[] add(c, x)\n"
        "  ROOT r = (T[], T[]) tuple(s, s)\n}",
    ),
    "dot": Example(
        "x = T[2,3] parameter(0)\ny = T[3,4] parameter(1)\n"
        "ROOT r = T[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
    "ragged-dot": Example(
        "x = T[4,3] parameter(0)\ny = T[2,3,5] parameter(1)\nsizes = s32[2] constant({1, 3})\n"
        "ROOT r = T[4,5] ragged-dot(x, y, sizes), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
    ),
    "scaled-dot": Example(
        "x = T[2,8] parameter(0)\ny = T[3,8] parameter(1)\na = f8e8m0fnu[2,2] parameter(2)\n"
        "b = f8e8m0fnu[3,2] parameter(3)\nROOT r = f32[2,3] scaled-dot(x, y, a, b), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        dtype="f8e4m3fn",
    ),
    "convolution": Example(
        "x = T[1,8,3] parameter(0)\nk = T[3,3,2] parameter(1)\n"
        "ROOT r = T[1,8,2] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"
    ),
    # ---- order, random bits, linear algebra, normalisation
    "sort": Example(
        "x = T[5] parameter(0)\nROOT r = T[5] sort(x), dimensions={0}, to_apply=before", _ORDER
    ),
    "topk": Example("x = T[5] parameter(0)\nROOT r = (T[2], s32[2]) topk(x), k=2, largest=true"),
    "rng": Example(
        "a = T[] constant(ONE)\nb = T[] constant(ONE)\n"
        "ROOT r = T[4] rng(a, b), distribution=rng_uniform"
    ),
    "rng-bit-generator": Example(
        "state = u64[2] parameter(0)\n"
        "ROOT r = (u64[2], T[4]) rng-bit-generator(state), algorithm=rng_three_fry",
        dtype="u32",
    ),
    "rng-get-and-update-state": Example("ROOT r = u64[2] rng-get-and-update-state(), delta=1"),
    "fft": Example(
        "x = T[8] parameter(0)\nROOT r = T[8] fft(x), fft_type=FFT, fft_length={8}", dtype="c64"
    ),
    "cholesky": Example("a = T[3,3] parameter(0)\nROOT r = T[3,3] cholesky(a), lower=true"),
    "triangular-solve": Example(
        "a = T[3,3] parameter(0)\nb = T[3,2] parameter(1)\n"
        "ROOT r = T[3,2] triangular-solve(a, b), left_side=true, lower=true, "
        "transpose_a=NO_TRANSPOSE"
    ),
    "batch-norm-training": Example(
        "x = T[8,2] parameter(0)\nscale = T[2] parameter(1)\noffset = T[2] parameter(2)\n"
        "ROOT r = (T[8,2], T[2], T[2]) batch-norm-training(x, scale, offset), epsilon=0.001, "
        "feature_index=1"
    ),
    "batch-norm-inference": Example(
        "x = T[8,2] parameter(0)\nscale = T[2] parameter(1)\noffset = T[2] parameter(2)\n"
        "mean = T[2] parameter(3)\nvariance = T[2] parameter(4)\n"
        "ROOT r = T[8,2] batch-norm-inference(x, scale, offset, mean, variance), epsilon=0.001, "
        "feature_index=1"
    ),
    "batch-norm-grad": Example(
        "x = T[8,2] parameter(0)\nscale = T[2] parameter(1)\nmean = T[2] parameter(2)\n"
        "variance = T[2] parameter(3)\ndy = T[8,2] parameter(4)\n"
        "ROOT r = (T[8,2], T[2], T[2]) batch-norm-grad(x, scale, mean, variance, dy), "
        "epsilon=0.001, feature_index=1"
    ),
    # ---- tuples, calls, control flow
    "tuple": Example("x = T[4] parameter(0)\nROOT r = (T[4], T[4]) tuple(x, x)"),
    "get-tuple-element": Example(
        "x = (s32[], T[4]) parameter(0)\nROOT r = T[4] get-tuple-element(x), index=1"
    ),
    "call": Example(
        "x = T[4] parameter(0)\nROOT r = T[4] call(x), to_apply=twice",
        "twice {\n  x = T[4] parameter(0)\n  ROOT r = T[4] add(x, x)\n}",
    ),
    "fusion": Example(
        "x = T[4] parameter(0)\nROOT r = T[4] fusion(x), kind=kLoop, calls=twice",
        "twice {\n  x = T[4] parameter(0)\n  ROOT r = T[4] add(x, x)\n}",
    ),
    "while": Example(
        f"i = s32[] constant(0)\nx = T[4] parameter(0)\ns = {_STATE} tuple(i, x)\n"
        f"ROOT r = {_STATE} while(s), condition=below, body=step",
        f"below {{\n  s = {_STATE} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  n = s32[] constant(3)\n  ROOT r = pred[] compare(i, n), direction=LT\n}\n\n"
        f"step {{\n  s = {_STATE} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  x = T[4] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n"
        f"  j = s32[] add(i, one)\n  y = T[4] add(x, x)\n  ROOT r = {_STATE} tuple(j, y)\n}}",
    ),
    "conditional": Example(
        "i = s32[] parameter(0)\nx = T[4] parameter(1)\n"
        "ROOT r = T[4] conditional(i, x, x), branch_computations={same, twice}",
        "same {\n  ROOT x = T[4] parameter(0)\n}\n\n"
        "twice {\n  x = T[4] parameter(0)\n  ROOT r = T[4] add(x, x)\n}",
    ),
    "opt-barrier": Example("x = T[4] parameter(0)\nROOT r = T[4] opt-barrier(x)"),
    "domain": Example(
        "x = T[4] parameter(0)\nROOT r = T[4] domain(x), "
        'domain={kind="sharding", entry={maximal device=0}, exit={maximal device=0}}'
    ),
    "after-all": Example(
        "x = T[4] parameter(0)\nt = token[] after-all()\nROOT r = T[4] add-dependency(x, t)"
    ),
    "add-dependency": Example(
        "x = T[4] parameter(0)\nt = token[] after-all()\nROOT r = T[4] add-dependency(x, t)"
    ),
    "custom-call": Example(
        'x = T[4] parameter(0)\nROOT r = T[4] custom-call(x), custom_call_target="Sharding"'
    ),
    # ---- asynchronous forms
    "async-start": (
        _ASYNC := Example(
            "x = T[4] parameter(0)\n"
            "s = ((T[4]), T[4], u32[]) async-start(x), calls=twice\n"
            "u = ((T[4]), T[4], u32[]) async-update(s)\nROOT r = T[4] async-done(u)",
            "twice {\n  x = T[4] parameter(0)\n  ROOT r = T[4] add(x, x)\n}",
        )
    ),
    "async-update": _ASYNC,
    "async-done": _ASYNC,
    "copy-start": (
        _COPY := Example(
            "x = T[4] parameter(0)\ns = (T[4], T[4], u32[]) copy-start(x)\n"
            "ROOT r = T[4] copy-done(s)"
        )
    ),
    "copy-done": _COPY,
    # ---- devices
    "replica-id": Example("ROOT r = u32[] replica-id()"),
    "partition-id": Example("ROOT r = u32[] partition-id()"),
    "all-reduce": Example(
        "x = T[4] parameter(0)\nROOT r = T[4] all-reduce(x), replica_groups={}, to_apply=combine",
        _reducer("add"),
    ),
    "all-reduce-start": (
        _ALL_REDUCE := Example(
            "x = T[4] parameter(0)\n"
            "s = T[4] all-reduce-start(x), replica_groups={}, to_apply=combine\n"
            "ROOT r = T[4] all-reduce-done(s)",
            _reducer("add"),
        )
    ),
    "all-reduce-done": _ALL_REDUCE,
    "reduce-scatter": Example(
        "x = T[4] parameter(0)\nROOT r = T[2] reduce-scatter(x), replica_groups={{0,1}}, "
        "dimensions={0}, to_apply=combine",
        _reducer("add"),
    ),
    "all-gather": Example(
        "x = T[4] parameter(0)\nROOT r = T[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}"
    ),
    "all-gather-start": (
        _ALL_GATHER := Example(
            "x = T[4] parameter(0)\n"
            "s = (T[4], T[8]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}\n"
            "ROOT r = T[8] all-gather-done(s)"
        )
    ),
    "all-gather-done": _ALL_GATHER,
    "all-to-all": Example(
        "x = T[4] parameter(0)\nROOT r = T[4] all-to-all(x), replica_groups={{0,1}}, dimensions={0}"
    ),
    "ragged-all-to-all": Example(
        "x = T[4] parameter(0)\nout = T[4] parameter(1)\nn = s32[2] parameter(2)\n"
        "ROOT r = T[4] ragged-all-to-all(x, out, n, n, n, n), replica_groups={{0,1}}"
    ),
    "collective-broadcast": Example(
        "x = T[4] parameter(0)\nROOT r = T[4] collective-broadcast(x), replica_groups={{0,1}}"
    ),
    "collective-permute": Example(
        "x = T[4] parameter(0)\n"
        "ROOT r = T[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}"
    ),
    "collective-permute-start": (
        _PERMUTE := Example(
            "x = T[4] parameter(0)\ns = (T[4], T[4], u32[], u32[]) "
            "collective-permute-start(x), source_target_pairs={{0,1},{1,0}}\n"
            "ROOT r = T[4] collective-permute-done(s)"
        )
    ),
    "collective-permute-done": _PERMUTE,
    "infeed": Example("t = token[] after-all()\nROOT r = (T[4], token[]) infeed(t)"),
    "outfeed": Example(
        "x = T[4] parameter(0)\nt = token[] after-all()\n"
        "ROOT r = token[] outfeed(x, t), outfeed_shape=T[4]"
    ),
    "send": (
        _SEND := Example(
            "x = T[4] parameter(0)\nt = token[] after-all()\n"
            "s = (T[4], u32[], token[]) send(x, t), channel_id=1\n"
            "ROOT r = token[] send-done(s), channel_id=1"
        )
    ),
    "send-done": _SEND,
    "recv": (
        _RECV := Example(
            "t = token[] after-all()\ns = (T[4], u32[], token[]) recv(t), channel_id=1\n"
            "ROOT r = (T[4], token[]) recv-done(s), channel_id=1"
        )
    ),
    "recv-done": _RECV,
}
"""Starts and ends of one operation share their example."""

_TYPES = ("f32", "s32", "c64")
"""Element types of examples of elementwise opcodes: the first that the shape rule takes."""


def example_of(name: str) -> Example:
    """Return the example of an opcode: the one in its row, the one here, or operands of one type.

    Raises:
        KeyError: a row that is not elementwise, or has attributes, has none.
    """
    row = OPCODES[name]
    if row.example is not None:
        return row.example
    if name in _EXAMPLES or not row.elementwise or row.attributes is not None:
        return _EXAMPLES[name]
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
