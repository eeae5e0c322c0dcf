"""Operators that change the shape of a tensor or slice it, and those that create tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.torch.graph import Lowering, implements


@implements(
    "view.default", "_unsafe_view.default", "reshape.default", "squeeze.dim", "squeeze.dims",
    "squeeze.default", "unsqueeze.default",
)  # fmt: skip
def _reshape(g: Lowering, x: Instruction, *_: Any) -> Instruction:
    return x if x.array.dims == g.dims else g.build.reshape(x, g.dims)


@implements("permute.default")
def _permute(g: Lowering, x: Instruction, dims: Sequence[int]) -> Instruction:
    order = [dim % x.array.rank for dim in dims]
    return x if order == sorted(order) else g.build.transpose(x, order)


implements("t.default")(lambda g, x: g.build.transpose(x, (1, 0)) if x.array.rank == 2 else x)


@implements("transpose.int")
def _transpose(g: Lowering, x: Instruction, a: int, b: int) -> Instruction:
    order = list(range(x.array.rank))
    order[a], order[b] = order[b], order[a]
    return _permute(g, x, order)


implements("expand.default")(lambda g, x, _sizes, **_options: g.expand(x, g.dims))


@implements("cat.default")
def _concatenate(g: Lowering, parts: Sequence[Instruction], dim: int = 0) -> Instruction:
    arrays = [g.cast(p, g.dtype) for p in parts if p.array.dims != (0,)]
    return g.build.concatenate(arrays, dim % len(g.dims)) if len(arrays) > 1 else arrays[0]


@implements("stack.default")
def _stack(g: Lowering, parts: Sequence[Instruction], dim: int = 0) -> Instruction:
    dim %= len(g.dims)
    sizes = [*g.dims[:dim], 1, *g.dims[dim + 1 :]]
    return g.build.concatenate([g.build.reshape(p, sizes) for p in parts], dim)


def part(g: Lowering, x: Instruction, dim: int, start: int, end: int, step: int = 1) -> Instruction:
    """Return `x[..., start:end:step, ...]` at `dim`."""
    sizes = x.array.dims
    starts, ends, steps = [0] * len(sizes), list(sizes), [1] * len(sizes)
    starts[dim], ends[dim], steps[dim] = start, end, step
    return x if (start, end, step) == (0, sizes[dim], 1) else g.build.slice(x, starts, ends, steps)


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return start and end within 0..size, as for Python's slices."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


@implements("slice.Tensor")
def _slice(
    g: Lowering,
    x: Instruction,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Instruction:
    dim %= x.array.rank
    return part(g, x, dim, *_bounds(x.array.dims[dim], start, end), step)


@implements("select.int")
def _select(g: Lowering, x: Instruction, dim: int, index: int) -> Instruction:
    dim %= x.array.rank
    index %= x.array.dims[dim]
    return g.build.reshape(part(g, x, dim, index, index + 1), g.dims)


@implements("split_with_sizes.default")
def _split(g: Lowering, x: Instruction, sizes: Sequence[int], dim: int = 0) -> list[Instruction]:
    dim %= x.array.rank
    found, start = [], 0
    for size in sizes:
        found.append(part(g, x, dim, start, start + size))
        start += size
    return found


@implements("split.Tensor")
def _split_evenly(g: Lowering, x: Instruction, size: int, dim: int = 0) -> list[Instruction]:
    total = x.array.dims[dim % x.array.rank]
    return _split(g, x, [min(size, total - at) for at in range(0, total, size)], dim)


@implements("unbind.int")
def _unbind(g: Lowering, x: Instruction, dim: int = 0) -> list[Instruction]:
    dim %= x.array.rank
    sizes = [*x.array.dims[:dim], *x.array.dims[dim + 1 :]]
    count = x.array.dims[dim]
    return [g.build.reshape(part(g, x, dim, i, i + 1), sizes) for i in range(count)]


@implements("slice_scatter.default")
def _slice_scatter(
    g: Lowering,
    x: Instruction,
    source: Instruction,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Instruction:
    if step != 1:
        raise UnsupportedError("a slice that is written must have step 1")
    dim %= x.array.rank
    first, _ = _bounds(x.array.dims[dim], start, end)
    starts = [g.index(first if i == dim else 0) for i in range(x.array.rank)]
    return g.build.dynamic_update_slice(x, g.cast(source, g.dtype), starts)


@implements("select_scatter.default")
def _select_scatter(
    g: Lowering, x: Instruction, source: Instruction, dim: int, index: int
) -> Instruction:
    dim %= x.array.rank
    sizes = [1 if i == dim else n for i, n in enumerate(x.array.dims)]
    index %= x.array.dims[dim]
    return _slice_scatter(g, x, g.build.reshape(source, sizes), dim, index, index + 1)


@implements("repeat.default")
def _repeat(g: Lowering, x: Instruction, counts: Sequence[int]) -> Instruction:
    """Return tiled copies: each dimension n becomes count x n, then one again."""
    sizes = [1] * (len(counts) - x.array.rank) + list(x.array.dims)
    both = [n for pair in zip(counts, sizes, strict=True) for n in pair]
    placed = [2 * (len(counts) - x.array.rank + i) + 1 for i in range(x.array.rank)]
    return g.build.reshape(g.build.broadcast(x, both, placed), g.dims)


implements("flip.default")(
    lambda g, x, dims: g.build.reverse(x, sorted(dim % x.array.rank for dim in dims)) if dims else x
)


@implements("constant_pad_nd.default")
def _pad(g: Lowering, x: Instruction, pad: Sequence[int], value: float = 0) -> Instruction:
    """Pad; `pad` lists low and high from the last dimension backwards."""
    low, high = [0] * x.array.rank, [0] * x.array.rank
    for i in range(len(pad) // 2):
        low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return g.build.pad(x, g.constant(value, g.dtype), low, high)


implements("tril.default")(lambda g, x, diagonal=0: _triangle(g, x, diagonal, "GE"))
implements("triu.default")(lambda g, x, diagonal=0: _triangle(g, x, diagonal, "LE"))


def _triangle(g: Lowering, x: Instruction, diagonal: int, direction: str) -> Instruction:
    from hloc.dtypes import S64

    rows, columns = (g.build.iota(S64, g.dims, len(g.dims) - 2 + i) for i in (0, 1))
    shifted = g.build.add(rows, g.splat(diagonal, S64, g.dims))
    inside = g.build.compare(shifted, columns, direction)
    return g.build.select(inside, x, g.splat(0, g.dtype, g.dims))


# ---------------------------------------------------------------- new tensors


implements("full.default", "full_like.default", "new_full.default")(
    lambda g, _sizes, *values, **_options: g.operand(values[-1], g.dtype, g.dims)
)
implements("scalar_tensor.default")(lambda g, value, **_options: g.operand(value, g.dtype, ()))


@implements("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format",
            "empty_like.default", "empty_strided.default", "new_empty.default")  # fmt: skip
def _zeros(g: Lowering, *_: Any, **_options: Any) -> Instruction:
    return g.splat(0, g.dtype, g.dims)


implements("ones.default", "ones_like.default", "new_ones.default")(
    lambda g, *_, **_options: g.splat(1, g.dtype, g.dims)
)


@implements("arange.start_step", "arange.start", "arange.default")
def _arange(g: Lowering, *bounds: Any, **_options: Any) -> Instruction:
    start = bounds[0] if len(bounds) > 1 else 0
    step = bounds[2] if len(bounds) > 2 else 1
    found = g.build.iota(g.dtype, g.dims)
    if step != 1:
        found = g.build.multiply(found, g.splat(step, g.dtype, g.dims))
    return found if start == 0 else g.build.add(found, g.splat(start, g.dtype, g.dims))


@implements("eye.default", "eye.m")
def _eye(g: Lowering, *_: Any, **_options: Any) -> Instruction:
    from hloc.dtypes import S64

    rows, columns = (g.build.iota(S64, g.dims, i) for i in (0, 1))
    return g.cast(g.build.compare(rows, columns, "EQ"), g.dtype)
