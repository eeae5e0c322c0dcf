"""The evaluator itself: arguments, memory, elided constants, order, depth."""

import ml_dtypes
import numpy as np
import pytest

import hloc
from hloc.errors import HloError
from hloc.evaluator import MAX_NESTING, evaluate_module
from tests.unit.ops.programs import f32, run, s32


def test_tuples_of_arguments_and_results_are_flattened() -> None:
    results = run(
        "p = (f32[], (s32[2], token[])) parameter(0) q = bf16[] parameter(1) ROOT t = tuple(q, p)",
        f32(1),
        s32([2, 3]),
        np.asarray(4, ml_dtypes.bfloat16),
    )
    assert [r.tolist() for r in results] == [4, 1, [2, 3]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes 1 arrays, but 0 were given"),
        ([f32([1, 2]), f32(0)], "takes 1 arrays, but 2 were given"),
        ([np.array([1.0, 2.0])], r"parameter 0 \(p\) is f32\[2\], but the argument is f64\[2\]"),
        ([f32([1, 2, 3])], r"parameter 0 \(p\) is f32\[2\], but the argument is f32\[3\]"),
        ([np.array(["x", "y"])], r"parameter 0 \(p\) is f32\[2\], but the argument is <U1\[2\]"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: list[np.ndarray], message: str) -> None:
    with pytest.raises(HloError, match=message):
        run("p = f32[2] parameter(0) ROOT n = negate(p)", *arguments)


def test_a_result_beyond_the_limit_says_how_much_it_needs() -> None:
    with pytest.raises(
        HloError, match=r"iota i of shape f32\[4294967296\] needs 17179869184 bytes"
    ):
        run("ROOT i = f32[4294967296] iota(), iota_dimension=0")


def test_results_do_not_share_memory_with_arguments_or_constants() -> None:
    x = f32([1, 2])
    module = hloc.parse(
        "HloModule m\nENTRY e { p = f32[2] parameter(0) c = f32[2] constant({3, 4}) "
        "ROOT t = tuple(p, c) }"
    )
    for result in evaluate_module(module, [x]):
        result[0] = 9
    assert x.tolist() == [1, 2]
    assert evaluate_module(module, [x])[1].tolist() == [3, 4]


def test_elided_constants_are_refused_unless_filled() -> None:
    module = hloc.parse("HloModule m\nENTRY e { ROOT c = f32[100] constant({...}) }", verify=False)
    with pytest.raises(HloError, match=r"values of f32\[100\] constant.* are elided"):
        evaluate_module(module, [])
    assert (evaluate_module(module, [], fill_constants="zeros")[0] == 0).all()


def test_dead_instructions_are_not_evaluated() -> None:
    (result,) = run('x = f32[] constant(1) d = f32[] custom-call(), custom_call_target="no" '
                    "ROOT r = f32[] negate(x)")  # fmt: skip
    assert result == -1


def test_long_chains_do_not_exhaust_the_stack() -> None:
    chain = " ".join(f"x{n + 1} = f32[] negate(x{n})" for n in range(5000))
    (result,) = run(f"x0 = f32[] parameter(0) {chain} ROOT r = f32[] add(x5000, x0)", f32(2))
    assert result == 4


def test_computations_that_nest_too_deep_are_an_error() -> None:
    called = "g0 { ROOT p = f32[] parameter(0) }\n" + "".join(
        f"g{n + 1} {{ p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=g{n} }}\n"
        for n in range(MAX_NESTING + 5)
    )
    with pytest.raises(HloError, match="nest more than"):
        run(f"p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=g{MAX_NESTING + 5}",
            f32(1), called=called)  # fmt: skip
    (result,) = run(f"p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=g{MAX_NESTING - 5}",
                    f32(1), called=called)  # fmt: skip
    assert result == 1


def test_dynamic_dimensions_have_their_present_size() -> None:
    (result,) = run("p = f32[4] parameter(0) n = s32[] constant(2) "
                    "ROOT s = f32[<=4] set-dimension-size(p, n), dimensions={0}",
                    f32([1, 2, 3, 4]))  # fmt: skip
    assert result.tolist() == [1, 2]


def test_values_are_exact_across_narrow_types() -> None:
    (result,) = run(
        "a = bf16[2] parameter(0) b = f32[2] convert(a) c = f8e5m2[2] convert(b) "
        "ROOT d = f32[2] convert(c)",
        np.array([1.125, 3.5], ml_dtypes.bfloat16),
    )
    assert result.tolist() == [1.0, 3.5]


def test_a_result_without_a_bound_has_the_size_that_it_has() -> None:
    text = "HloModule m\nENTRY e { p = f32[3] parameter(0) ROOT t = f32[?] add(p, p) }\n"
    (found,) = hloc.evaluate(text, np.ones(3, np.float32))
    np.testing.assert_array_equal(found, [2, 2, 2])
