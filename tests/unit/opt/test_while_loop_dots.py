"""Products that leave their loop are those of the loop, for any side, dimension and direction."""

from itertools import product

import numpy as np
import pytest

import hloc
from hloc.ir.verifier import verify
from hloc.opt.pipeline import Pipeline

BATCHING = "while-loop-dot-batching{min-work=1},while-loop-invariant-code-motion"
SINKING = "while-loop-dot-sinking{min-bytes=1},while-loop-simplifier"


def loop_text(state: str, first: int, step: int, steps: int, body: str, entry: str) -> str:
    """Return a loop over `i` from `first` on, by `step`; `body` ends with the tuple `r`."""
    end, direction = first + steps * step, "LT" if step > 0 else "GT"
    return f"""HloModule m

condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  end = s32[] constant({end})
  ROOT more = pred[] compare(i, end), direction={direction}
}}

body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  step = s32[] constant({step})
  next = s32[] add(i, step)
  zero = s32[] constant(0)
{body}
}}

ENTRY e {{
  first = s32[] constant({first})
{entry}
}}
"""


def run(text: str, passes: str, *arrays: np.ndarray) -> int:
    """Check that the passes keep the answers of `text`; return how many of them fired."""
    module = hloc.parse(text)
    wanted = hloc.evaluate(module, *arrays)
    fired = Pipeline.parse(passes, check_changed=True).run(module)
    verify(module)
    for found in (hloc.evaluate(module, *arrays), hloc.compile(text, opt_level=2)(*arrays)):
        for result, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(result, want)
    return int(fired)


@pytest.mark.parametrize(
    ("dim", "is_left", "step"), list(product(range(3), (True, False), (1, -1)))
)
def test_slices_of_any_dimension(dim: int, is_left: bool, step: int) -> None:
    steps, rows, depth, columns = 5, 3, 4, 6
    slice_dims = [rows, depth]
    whole, cut = list(slice_dims), list(slice_dims)
    whole.insert(dim, steps)
    cut.insert(dim, 1)
    xs, piece = (",".join(map(str, dims)) for dims in (whole, cut))
    starts = ["zero"] * 3
    starts[dim] = "i"
    left, right = ("x", "w") if is_left else ("w", "x")
    contracting = {"x": 1, "w": 1}
    out = f"{rows},{columns}" if is_left else f"{columns},{rows}"
    state = f"(s32[], f32[{out}], f32[{xs}], f32[{columns},{depth}])"
    body = f"""  h = f32[{out}] get-tuple-element(s), index=1
  xs = f32[{xs}] get-tuple-element(s), index=2
  w = f32[{columns},{depth}] get-tuple-element(s), index=3
  part = f32[{piece}] dynamic-slice(xs, {", ".join(starts)}), dynamic_slice_sizes={{{piece}}}
  x = f32[{rows},{depth}] reshape(part)
  y = f32[{out}] dot({left}, {right}), lhs_contracting_dims={{{contracting[left]}}}, \
rhs_contracting_dims={{{contracting[right]}}}
  turned = f32[{out}] subtract(y, h)
  ROOT r = {state} tuple(next, turned, xs, w)"""
    entry = f"""  xs = f32[{xs}] parameter(0)
  w = f32[{columns},{depth}] parameter(1)
  h = f32[{out}] parameter(2)
  t = {state} tuple(first, h, xs, w)
  loop = {state} while(t), condition=condition, body=body
  ROOT r = f32[{out}] get-tuple-element(loop), index=1"""
    first = 0 if step > 0 else steps - 1
    rng = np.random.default_rng(dim)
    arrays = [
        rng.integers(-4, 5, shape).astype(np.float32)
        for shape in (whole, (columns, depth), tuple(map(int, out.split(","))))
    ]
    assert run(loop_text(state, first, step, steps, body, entry), BATCHING, *arrays)


@pytest.mark.parametrize(
    ("dtype", "first", "step"), list(product(("f32", "f64"), (0, 7, -2), (1, -1)))
)
def test_sums_of_products_of_the_state(dtype: str, first: int, step: int) -> None:
    """The operands change from step to step, and the sum has an initial value."""
    size = 24
    state = f"(s32[], {dtype}[{size},{size}], {dtype}[2,{size}])"
    body = f"""  sum = {dtype}[{size},{size}] get-tuple-element(s), index=1
  x = {dtype}[2,{size}] get-tuple-element(s), index=2
  number = {dtype}[] convert(i)
  all = {dtype}[2,{size}] broadcast(number), dimensions={{}}
  y = {dtype}[2,{size}] subtract(all, x)
  product = {dtype}[{size},{size}] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  total = {dtype}[{size},{size}] add(product, sum)
  ROOT r = {state} tuple(next, total, y)"""
    entry = f"""  sum = {dtype}[{size},{size}] parameter(0)
  x = {dtype}[2,{size}] parameter(1)
  t = {state} tuple(first, sum, x)
  ROOT loop = {state} while(t), condition=condition, body=body"""
    rng = np.random.default_rng(first + 9)
    kind = np.float32 if dtype == "f32" else np.float64
    arrays = [rng.integers(-4, 5, shape).astype(kind) for shape in ((size, size), (2, size))]
    assert run(loop_text(state, first, step, 6, body, entry), SINKING, *arrays)
