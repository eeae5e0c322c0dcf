"""`hloc.from_jax` and `hloc.jit` compute what JAX computes, and copy nothing on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.jax

import jax.numpy as jnp  # noqa: E402

import hloc  # noqa: E402
from hloc.errors import HloError  # noqa: E402
from tests.jax.programs import PROGRAMS  # noqa: E402
from tests.tolerance import assert_close  # noqa: E402

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
W = np.linspace(0, 2, 6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(autouse=True)
def _on_xla() -> Iterator[None]:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def loss(x: Any, w: Any) -> Any:
    """A function of two matrices."""
    return jnp.tanh(x @ w).sum()


def _check(got: Any, want: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert isinstance(a, jax.Array)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert_close(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_jax_computes(name: str) -> None:
    program = PROGRAMS[name]
    exact = {"xla_allow_excess_precision": False}  # round bfloat16 after each step, as hloc does
    want = jax.jit(program.function, compiler_options=exact)(*program.arguments)
    _check(hloc.jit(program.function)(*program.arguments), want)


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f,
        lambda f: jax.grad(f, 1),
        lambda f: jax.value_and_grad(f, (0, 1)),
        lambda f: jax.vmap(f, (0, None)),
        lambda f: jax.hessian(f, 1),
        jax.jit,
        jax.checkpoint,
    ],
    ids=["plain", "grad", "value_and_grad", "vmap", "hessian", "jit", "checkpoint"],
)
def test_a_transformed_function_is_lowered_whole(make: Any) -> None:
    f = make(loss)
    program = hloc.from_jax(f, X, W)
    assert program.hlo().startswith("HloModule")
    _check(program(X, W), f(X, W))


@pytest.mark.parametrize(
    "use",
    [
        lambda f: jax.grad(f, 1)(X, W),
        lambda f: jax.vmap(f, (0, None))(X[:, None], W),
        lambda f: jax.jit(f)(X, W),
        lambda f: jax.lax.scan(lambda c, _: (c + f(X, W), None), 0.0, None, 3)[0],
        lambda f: jax.eval_shape(f, X, W).shape,
    ],
    ids=["grad", "vmap", "jit", "scan", "eval_shape"],
)
def test_inside_a_transformation_it_is_as_one_of_jax(use: Any) -> None:
    got, want = use(hloc.jit(loss)), use(jax.jit(loss))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- arguments and results


def test_pytrees_go_in_and_out() -> None:
    @hloc.jit
    def f(params: Any, *, scale: float = 2.0) -> Any:
        return {"a": params["w"] * scale, "b": (params["list"][0].sum(), None), "c": []}

    params = {"w": jnp.asarray(X), "list": [W, 3]}
    for keywords in ({}, {"scale": 3.0}):
        got = f(params, **keywords)
        assert got["b"][1] is None
        _check(got["a"], X * np.float32(keywords.get("scale", 2.0)))


def test_static_arguments_by_position_and_name() -> None:
    by_number = hloc.jit(lambda x, n: x**n, static_argnums=1)
    by_name = hloc.jit(static_argnames="n")(lambda x, n: x**n)
    for f in (by_number, by_name):
        assert [float(f(3.0, 2)), float(f(3.0, 3)), float(f(3.0, n=4))] == [9.0, 27.0, 81.0]
    with pytest.raises(HloError, match="hashable"):
        by_number(3.0, [2])


def test_new_shapes_types_and_weak_types_are_compiled_anew() -> None:
    f = hloc.jit(lambda x: x * jnp.float16(2))
    assert f(3).dtype == jnp.float16  # a Python number has a weak type
    assert f(np.int32(3)).dtype == jnp.float16
    assert f(np.ones(2, np.float32)).dtype == jnp.float32
    assert f(np.ones((2, 2), np.float32)).shape == (2, 2)


def test_64_bits_only_where_jax_is_told_so() -> None:
    f = hloc.jit(lambda x: x * 2)
    x = np.array([1.0, 1e-12])
    assert f(x).dtype == np.float32
    with jax.enable_x64(True):
        assert f(x).dtype == np.float64
        assert float(f(x)[1]) == 2e-12
    assert f(x).dtype == np.float32


def test_bfloat16_booleans_empty_arrays_and_keys() -> None:
    key = jax.random.key(0)
    _check(hloc.jit(lambda x: x.astype(jnp.bfloat16))(X), jnp.asarray(X, jnp.bfloat16))
    _check(hloc.jit(lambda x: x > 0)(X), jnp.asarray(X > 0))
    _check(hloc.jit(lambda x: x[:0])(X), jnp.zeros((0, 3)))
    got = hloc.jit(jax.random.split)(key)
    np.testing.assert_array_equal(
        jax.random.key_data(got), jax.random.key_data(jax.random.split(key))
    )


def test_large_results_are_not_copied_and_stay_as_they_are() -> None:
    f = hloc.jit(lambda x: x + 1)
    x = jnp.zeros((256, 256))
    results = [f(x + i) for i in range(4)]  # output memory is used again once it is dropped
    addresses = {result.unsafe_buffer_pointer() for result in results}
    assert len(addresses) == 4
    assert [float(result[0, 0]) for result in results] == [1.0, 2.0, 3.0, 4.0]
    del results
    assert f(x).unsafe_buffer_pointer() in addresses


def test_an_argument_that_jit_drops() -> None:
    program = hloc.from_jax(jax.jit(lambda x, unused, y: x - y), 5.0, X, 3.0)
    assert float(program(5.0, X, 3.0)) == 2.0


# ---------------------------------------------------------------- looking


def test_what_a_program_shows() -> None:
    program = hloc.from_jax(lambda x: jnp.sum(jnp.negative(jnp.negative(x))) * 1.0, X)
    change = program.diff("algsimp")
    assert "← negate-negate" in str(change)
    assert change.after.instruction_count < program.module.instruction_count
    assert "negate" in program.hlo()
    assert "negate" not in program.hlo("algsimp,dce")
    assert "parameters" in program.memory()
    removed = next(i.name for i in program.module.entry.instructions if i.is_a("negate"))
    assert "negate-negate" in str(program.why(removed, "algsimp"))


def test_a_pass_or_instruction_that_does_not_exist() -> None:
    program = hloc.from_jax(loss, X, W)
    with pytest.raises(HloError, match="there is no pass"):
        program.diff("no-such-pass")
    with pytest.raises(HloError, match="no-such"):
        program.why("no-such")


# ---------------------------------------------------------------- refusals


def test_a_callback_is_refused_in_words() -> None:
    def f(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x

    with pytest.raises(HloError, match=r"calls back into Python.*\n.*enable\(\)"):
        hloc.jit(f)(X)


def test_arguments_of_another_structure_or_shape() -> None:
    program = hloc.from_jax(loss, X, W)
    with pytest.raises(HloError, match="lowered for other arguments"):
        program(X)
    with pytest.raises(HloError, match=r"must be f32\[3,2\]"):
        program(X, X)


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(HloError, match="there is no option 'speed'"):
        hloc.jit(loss, speed=3)
