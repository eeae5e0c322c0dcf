"""hloc's rules inside JAX's own compilations: XLA takes every result, and answers stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.jax

import jax.numpy as jnp  # noqa: E402

import hloc.jax  # noqa: E402
from hloc.errors import HloError  # noqa: E402
from hloc.ir.module import Module  # noqa: E402
from hloc.jax.hook import CompilationHook  # noqa: E402
from hloc.opt import ModulePass, any_, ops, rule  # noqa: E402
from hloc.opt.pass_base import PassContext  # noqa: E402
from hloc.opt.rules import ALL_RULES  # noqa: E402
from tests.jax.programs import PROGRAMS  # noqa: E402
from tests.tolerance import bounds  # noqa: E402

EXACT = [row for row in ALL_RULES if row.exactness == "exact"]
UNOPTIMISED = {"xla_disable_hlo_passes": "algsimp,fusion,constant_folding,cpu-instruction-fusion"}
"""With XLA's own simplifier off, hloc's rules find more to do."""


@rule(ops.sine(any_("x")), exact="approximate")
def sine_to_cosine(m: Any, b: Any) -> Any:
    """sin(x) -> cos(x), XLA's example of a pass."""
    return b.cosine(m.x)


@rule(ops.sine(any_("x")), exact="approximate")
def broken(m: Any, b: Any) -> Any:
    """Names what the pattern does not bind."""
    return b.cosine(m.y)


@pytest.fixture(autouse=True)
def _on_xla() -> Iterator[None]:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def _leaves(tree: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def _same_bytes(got: Any, want: Any) -> None:
    for a, b in zip(_leaves(got), _leaves(want), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes(), (a, b)


def test_there_are_sixty_programs() -> None:
    assert len(PROGRAMS) == 60


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_goes_through_hloc_unchanged(name: str) -> None:
    program = PROGRAMS[name]
    function = jax.jit(program.function)
    want = function(*program.arguments)
    with CompilationHook(lambda module: (module, ())):  # reads, checks and writes every module
        got = function(*program.arguments)
    _same_bytes(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("options", [None, UNOPTIMISED], ids=["optimised", "unoptimised"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_exact_rules_keep_the_answers(name: str, options: dict[str, str] | None) -> None:
    program = PROGRAMS[name]
    function = jax.jit(program.function, compiler_options=options)
    want = function(*program.arguments)
    with hloc.jax.passes(*EXACT):
        got = function(*program.arguments)
    _same_bytes(got, want)


def test_exact_rules_fire_inside_jax() -> None:
    """The tests above could not fail if no rule ever fired."""
    program = PROGRAMS["nested_loops"]
    with hloc.jax.passes(*EXACT) as scope:
        jax.jit(program.function, compiler_options=UNOPTIMISED)(*program.arguments)
    assert scope.fired["rules/copy-same-layout"] > 0  # one that XLA's copies have to survive
    assert len(scope.fired) > 3


# ---------------------------------------------------------------- scopes


def test_a_rule_counts_inside_its_scope_only() -> None:
    x = jnp.arange(4.0)
    f = jax.jit(lambda v: jnp.sin(v) * 2)
    sine, cosine = f(x), jax.jit(lambda v: jnp.cos(v) * 2)(x)
    scope = hloc.jax.passes(sine_to_cosine)
    with scope:
        _same_bytes(f(x), cosine)
    _same_bytes(f(x), sine)
    compiled = len(scope.modules)
    with scope:  # neither is compiled again
        _same_bytes(f(x), cosine)
    assert len(scope.modules) == compiled
    assert scope.fired == {"rules/sine-to-cosine": 1}


def test_scopes_nest_the_outer_one_first() -> None:
    @rule(ops.cosine(any_("x")), exact="approximate")
    def cosine_to_tanh(m: Any, b: Any) -> Any:
        """cos(x) -> tanh(x)."""
        return b.tanh(m.x)

    x, f = jnp.arange(4.0), jax.jit(lambda v: jnp.sin(v))
    with hloc.jax.passes(sine_to_cosine):
        with hloc.jax.passes(cosine_to_tanh):
            inner = f(x)
        outer = f(x)
    np.testing.assert_array_equal(outer, jnp.cos(x))
    np.testing.assert_allclose(inner, jnp.tanh(x), **bounds("f32 few roundings"))


def test_a_scope_cannot_be_entered_inside_itself() -> None:
    scope = hloc.jax.passes(sine_to_cosine)
    with scope, pytest.raises(HloError, match="active already"), scope:
        pass


def test_the_cache_on_disk_keeps_nothing_of_a_scope(tmp_path: Any) -> None:
    """JAX's key of that cache does not know the hook."""
    kept = {
        "jax_compilation_cache_dir": jax.config.jax_compilation_cache_dir,
        "jax_persistent_cache_min_compile_time_secs": (
            jax.config.jax_persistent_cache_min_compile_time_secs
        ),
        "jax_persistent_cache_min_entry_size_bytes": (
            jax.config.jax_persistent_cache_min_entry_size_bytes
        ),
    }
    x = jnp.arange(4.0)

    def make() -> Any:
        return jax.jit(lambda v: jnp.sin(v) * 3)

    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        with hloc.jax.passes(sine_to_cosine):
            inside = make()(x)
        assert not list(tmp_path.iterdir())
        outside = make()(x)
        assert list(tmp_path.iterdir())
        jax.clear_caches()
        with hloc.jax.passes(sine_to_cosine):
            _same_bytes(make()(x), inside)
    finally:
        for name, value in kept.items():
            jax.config.update(name, value)
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()
    assert float(outside[0]) == 0.0
    assert float(inside[0]) == 3.0


def test_passes_run_on_the_backend_hloc_too() -> None:
    x, f = jnp.zeros(3), jax.jit(lambda v: jnp.sin(v) * 7)
    with jax.default_device(jax.devices("hloc")[0]):
        outside = f(x)
        with hloc.jax.passes(sine_to_cosine):
            inside = f(jnp.zeros(3))
        with pytest.raises(HloError, match="the pattern names no 'y'"), hloc.jax.passes(broken):
            f(jnp.zeros(3))
    assert (float(outside[0]), float(inside[0])) == (0.0, 7.0)


# ---------------------------------------------------------------- what may be given, and faults


def test_passes_of_every_kind() -> None:
    class Count(ModulePass):
        """Look at every module."""

        name = "count-modules"

        def run(self, module: Module, context: PassContext) -> bool:
            names.append(module.name)
            return False

    names: list[str] = []
    f = jax.jit(lambda v: jnp.sin(v) * 4)
    with hloc.jax.passes(Count, "algsimp,dce", sine_to_cosine, platforms="cpu") as scope:
        f(jnp.ones(3))
    assert "jit__lambda" in names
    assert [module.name for module in scope.modules] == names


def test_a_fault_in_a_rule_is_reported_with_its_line() -> None:
    f = jax.jit(lambda v: jnp.sin(v) * 5)
    with pytest.raises(HloError) as told, hloc.jax.passes(broken):
        f(jnp.ones(3))
    text = str(told.value)
    assert "jit__lambda" in text
    assert "test_passes.py:" in text
    assert "the pattern names no 'y'" in text
    _same_bytes(f(jnp.zeros(3)), jnp.zeros(3))  # and nothing is left behind


def test_an_invalid_module_does_not_reach_xla() -> None:
    def break_it(module: Module) -> Any:
        entry = module.entry
        entry.set_shape(entry.root, replace(entry.root.array, dims=(7,)))
        return module, ()

    with pytest.raises(HloError, match="that JAX compiles"), CompilationHook(break_it):
        jax.jit(lambda v: v * 6)(jnp.ones(3))


@pytest.mark.parametrize(
    ("what", "message"),
    [(len, "expected a rule"), ("no-such-pass", "there is no pass"), (3, "expected a rule")],
)
def test_objects_that_are_not_passes(what: Any, message: str) -> None:
    with pytest.raises(HloError, match=message):
        hloc.jax.passes(what)


def test_a_stage_that_does_not_exist() -> None:
    with pytest.raises(HloError, match="stage is one of"):
        hloc.jax.passes("dce", stage="later")  # type: ignore[arg-type]
