"""Dynamic sizes: the padder against the evaluator, which computes with arrays of present sizes.

The two share no code, so each opcode's rule for sizes and masks is checked by the other.
"""

import numpy as np
import pytest

import hloc
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import verify
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from tests.tolerance import assert_close

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }\n"
LESS = (
    "less { a = f32[] parameter(0) b = f32[] parameter(1) "
    "ROOT s = pred[] compare(a, b), direction=LT }\n"
)
SECOND = "second { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }\n"
LOOP = """
more { s = (s32[], f32[<=5,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
again { s = (s32[], f32[<=5,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[<=5,3] get-tuple-element(s), index=1
  y = f32[<=5,3] add(x, x)
  ROOT t = (s32[], f32[<=5,3]) tuple(j, y) }
"""
BRANCHES = """
left { p = f32[<=5,3] parameter(0)
  ROOT t = (f32[<=5,3]) tuple(p) }
right { p = f32[<=5,3] parameter(0)
  q = f32[<=5,3] negate(p)
  ROOT t = (f32[<=5,3]) tuple(q) }
"""

# Each reads d = f32[<=5,3], whose present size is n; x = f32[5,3] and w = f32[4,5] are static.
BODIES = {
    "elementwise": ("", "ROOT r = f32[<=5,3] add(d, x)"),
    "broadcast": (
        SUM,
        "z = f32[] constant(0) s = f32[<=5] reduce(d, z), dimensions={1}, to_apply=sum "
        "ROOT r = f32[2,<=5] broadcast(s), dimensions={1}",
    ),
    "reduce rows": (
        MAX,
        "z = f32[] constant(-inf) ROOT r = f32[3] reduce(d, z), dimensions={0}, to_apply=max",
    ),
    "reduce with another init": (
        SUM,
        "z = f32[] constant(7) ROOT r = f32[3] reduce(d, z), dimensions={0}, to_apply=sum",
    ),
    "dot over": (
        "",
        "ROOT r = f32[4,3] dot(w, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot of rows": (
        "",
        "ROOT r = f32[<=5,4] dot(d, u), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "transpose": ("", "ROOT r = f32[3,<=5] transpose(d), dimensions={1,0}"),
    "reshape merges": ("", "ROOT r = f32[<=15] reshape(d)"),
    "reshape splits": (
        "",
        "f = f32[<=15] reshape(d) ROOT r = f32[3,<=5] reshape(f)",
    ),
    "dynamic-reshape": (
        "",
        "three = s32[] constant(3) ROOT r = f32[3,<=5] dynamic-reshape(d, three, n)",
    ),
    "slice of columns": ("", "ROOT r = f32[<=5,2] slice(d), slice={[0:5], [1:3]}"),
    "pad": (
        "",
        "z = f32[] constant(9) ROOT r = f32[<=12,3] pad(d, z), padding=1_2_1x0_0",
    ),
    "pad with less": (
        "",
        "z = f32[] constant(9) ROOT r = f32[<=5,3] pad(d, z), padding=1_-1x0_0",
    ),
    "concatenate": (
        "",
        "ROOT r = f32[<=15,3] concatenate(d, x, d), dimensions={0}",
    ),
    "concatenate beside": ("", "ROOT r = f32[<=5,6] concatenate(d, d), dimensions={1}"),
    "reverse": ("", "ROOT r = f32[<=5,3] reverse(d), dimensions={0,1}"),
    "sort": (LESS, "ROOT r = f32[<=5,3] sort(d), dimensions={0}, to_apply=less"),
    "sort of rows": (LESS, "ROOT r = f32[<=5,3] sort(d), dimensions={1}, to_apply=less"),
    "gather": (
        "",
        "i = s32[2] constant({2,0}) ROOT r = f32[<=5,2] gather(d, i), offset_dims={0}, "
        "collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={5,1}",
    ),
    "scatter": (
        SECOND,
        "i = s32[5] constant({4,3,2,1,0}) j = s32[<=5] set-dimension-size(i, n), dimensions={0} "
        "ROOT r = f32[5,3] scatter(x, j, d), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second",
    ),
    "dynamic-slice": (
        "",
        "z = s32[] constant(0) o = s32[] constant(1) "
        "ROOT r = f32[<=5,2] dynamic-slice(d, z, o), dynamic_slice_sizes={5,2}",
    ),
    "dynamic-update-slice": (
        "",
        "z = s32[] constant(0) v = f32[1,3] constant({{7,8,9}}) "
        "ROOT r = f32[<=5,3] dynamic-update-slice(d, v, z, z)",
    ),
    "reduce-window": (
        SUM,
        "z = f32[] constant(0) ROOT r = f32[<=3,3] reduce-window(d, z), "
        "window={size=2x1 stride=2x1 pad=1_1x0_0}, to_apply=sum",
    ),
    "convolution": (
        "",
        "a = f32[1,<=5,3] reshape(d) k = f32[2,3,1] constant({{{1},{2},{3}},{{4},{5},{6}}}) "
        "ROOT r = f32[1,<=4,1] convolution(a, k), window={size=2}, dim_labels=b0f_0io->b0f",
    ),
    "while": (
        LOOP,
        "z = s32[] constant(0) i = (s32[], f32[<=5,3]) tuple(z, d) "
        "ROOT r = (s32[], f32[<=5,3]) while(i), condition=more, body=again",
    ),
    "conditional": (
        BRANCHES,
        "z = s32[] constant(2) p = pred[] compare(n, z), direction=LT "
        "c = (f32[<=5,3]) conditional(p, d, d), true_computation=left, false_computation=right "
        "ROOT r = f32[<=5,3] get-tuple-element(c), index=0",
    ),
    "batch-norm-training": (
        "",
        "s = f32[3] constant({1,2,3}) o = f32[3] constant({0,0,1}) "
        "b = (f32[<=5,3], f32[3], f32[3]) batch-norm-training(d, s, o), epsilon=0.1, "
        "feature_index=1 ROOT r = f32[<=5,3] get-tuple-element(b), index=0",
    ),
    "get-dimension-size": ("", "ROOT r = s32[] get-dimension-size(d), dimensions={0}"),
    "PadToStatic": (
        "",
        'ROOT r = (f32[5,3], s32[], s32[]) custom-call(d), custom_call_target="PadToStatic"',
    ),
}


def text_of(name: str) -> str:
    """Return a module with one opcode, a line per instruction."""
    called, body = BODIES[name]
    return (
        "HloModule m\n" + called + "ENTRY e {\n x = f32[5,3] parameter(0)\n w = f32[4,5] "
        "parameter(1)\n u = f32[4,3] parameter(2)\n n = s32[] parameter(3)\n"
        " d = f32[<=5,3] set-dimension-size(x, n), dimensions={0}\n " + body + "\n}"
    )


def inputs(size: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    arrays = [random.uniform(-2, 2, dims).astype(np.float32) for dims in ((5, 3), (4, 5), (4, 3))]
    return [*arrays, np.asarray(size, np.int32)]


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("level", [0, 2])
def test_every_size_gives_what_the_evaluator_gives(name: str, level: int) -> None:
    module = hloc.parse(text_of(name))
    run = hloc.compile(module, opt_level=level)
    first = 1 if name == "batch-norm-training" else 0
    for size in range(first, 6):
        wanted = hloc.evaluate(module, *inputs(size))
        for got, want in zip(run(*inputs(size)), wanted, strict=True):
            assert_close(got, want, f"{name} of size {size}")


@pytest.mark.parametrize("name", BODIES)
def test_the_result_is_static_and_verified(name: str) -> None:
    module = hloc.parse(text_of(name))
    Pipeline.parse("batch-norm-expander,dynamic-padder", check_changed=True).run(
        module, PassContext()
    )
    verify(module)
    for inst in all_instructions(module):
        assert "<=" not in str(inst.shape) or inst.is_a("custom-call", "tuple")


def test_operands_of_other_sizes() -> None:
    """Size 1 is repeated; of two others the smaller counts. Measured with XLA."""
    text = """HloModule m
    sum { a = s32[] parameter(0)
      b = s32[] parameter(1)
      ROOT s = s32[] add(a, b) }
    ENTRY e { m = s32[] parameter(0)
      n = s32[] parameter(1)
      one = s32[] constant(1)
      i = s32[4] iota(), iota_dimension=0
      o = s32[4] broadcast(one), dimensions={}
      x = s32[4] add(i, o)
      a = s32[<=4] set-dimension-size(x, m), dimensions={0}
      b = s32[<=4] set-dimension-size(x, n), dimensions={0}
      c = s32[<=4] multiply(a, b)
      z = s32[] constant(0)
      ROOT r = s32[] reduce(c, z), dimensions={0}, to_apply=sum }"""
    run = hloc.compile(text)
    for m in range(5):
        for n in range(5):
            sizes = (np.asarray(m, np.int32), np.asarray(n, np.int32))
            (want,) = hloc.evaluate(text, *sizes)
            assert run(*sizes)[0] == want, (m, n)
    assert run(np.int32(1), np.int32(3))[0] == 1 + 2 + 3
    assert run(np.int32(3), np.int32(2))[0] == 1 + 4


@pytest.mark.parametrize("size", [-7, 9])
def test_a_size_outside_the_bound_is_clamped(size: int) -> None:
    text = text_of("get-dimension-size")
    assert hloc.compile(text)(*inputs(size))[0] == min(max(size, 0), 5)
    assert hloc.evaluate(text, *inputs(size))[0] == min(max(size, 0), 5)


def test_arguments_may_be_smaller_than_their_bound() -> None:
    text = """HloModule m
    ENTRY e { p = (f32[<=4,<=3], f32[2]) parameter(0)
      x = f32[<=4,<=3] get-tuple-element(p), index=0
      y = f32[2] get-tuple-element(p), index=1
      n = f32[<=4,<=3] negate(x)
      ROOT r = (f32[2], f32[<=4,<=3]) tuple(y, n) }"""
    run = hloc.compile(text)
    for rows in range(5):
        for columns in range(4):
            x = np.random.default_rng(1).random((rows, columns), np.float32)
            found = run(x, np.ones(2, np.float32))
            assert len(found) == len(run.outputs) == 2
            np.testing.assert_array_equal(found[1], -x)
            np.testing.assert_array_equal(hloc.evaluate(text, x, np.ones(2, np.float32))[1], -x)
    for call in (run, lambda *arrays: hloc.evaluate(text, *arrays)):
        with pytest.raises(hloc.HloError):
            call(np.ones((5, 3), np.float32), np.ones(2, np.float32))


def test_an_opcode_without_a_rule_is_refused() -> None:
    text = """HloModule m
    ENTRY e { x = f32[<=4,4] parameter(0)
      ROOT c = f32[<=4,4] cholesky(x), lower=true }"""
    with pytest.raises(hloc.HloError, match="cannot run with dynamic sizes"):
        hloc.compile(text)
