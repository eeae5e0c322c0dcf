"""Host functions: called with arrays, checked, and their faults reach the caller."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

import hloc
from hloc.ir import registered_targets
from hloc.runtime.executable import Executable

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TEXT = """HloModule m
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  n = f32[2,3]{0,1} negate(x)
  t = (f32[3,2]{1,0}, s32[]) custom-call(n, x), custom_call_target="test.%s"
  a = f32[3,2]{1,0} get-tuple-element(t), index=0
  b = s32[] get-tuple-element(t), index=1
  d = f32[3,2]{1,0} add(a, a)
  ROOT r = (f32[3,2]{1,0}, s32[]) tuple(d, b)
}"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def compiled(name: str, function: Callable[..., Any]) -> Executable:
    hloc.register_custom_call(f"test.{name}", function)
    return hloc.compile(TEXT % name)


def test_arrays_come_in_logical_order_and_go_back() -> None:
    seen = []

    def function(n: Array, x: Array) -> Any:
        seen.append((n.copy(), x.copy(), x.flags.writeable))
        return n.T * 10, np.int32(7)

    found, number = compiled("good", function)(X)
    np.testing.assert_array_equal(found, -X.T * 20)
    assert number == 7
    np.testing.assert_array_equal(seen[0][0], -X)
    np.testing.assert_array_equal(seen[0][1], X)
    assert not seen[0][2]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda n: (n, np.int32(0)), r"result 0 is float32\[2, 3\], expected f32\[3,2\]"),
        (lambda n: (n.T, 0.5), r"result 1 is float64\[\], expected s32\[\]"),
        (lambda n: n.T, "must return 2 arrays"),
    ],
)
def test_wrong_results(result: Callable[[Array], Any], words: str) -> None:
    run = compiled("wrong", lambda n, x: result(n))
    with pytest.raises(hloc.HloError, match=words):
        run(X)


def test_an_exception_passes_through_and_the_executable_lives_on() -> None:
    fail = [True]

    def function(n: Array, x: Array) -> Any:
        if fail:
            raise ValueError("no luck")
        return n.T, np.int32(1)

    run = compiled("fails", function)
    with pytest.raises(ValueError, match="no luck"):
        run(X)
    fail.clear()
    np.testing.assert_array_equal(run(X)[0], -2 * X.T)


def test_an_exception_ends_a_loop() -> None:
    def function(i: Array) -> Any:
        raise RuntimeError("stop here")

    hloc.register_custom_call("test.in_loop", function)
    run = hloc.compile(
        """HloModule m
        c { i = s32[] parameter(0)
          ROOT t = pred[] constant(true) }
        b { i = s32[] parameter(0)
          ROOT j = s32[] custom-call(i), custom_call_target="test.in_loop" }
        ENTRY e { z = s32[] parameter(0)
          ROOT w = s32[] while(z), condition=c, body=b }"""
    )
    with pytest.raises(RuntimeError, match="stop here"):
        run(np.int32(0))


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("has_effect", [True, False])
def test_a_call_without_arrays_runs_for_its_effect(level: int, has_effect: bool) -> None:
    """It was left out; `jax.debug.callback` without arguments is one."""
    calls = []

    def function() -> tuple[()]:
        calls.append(1)
        return ()

    hloc.register_custom_call("test.effect", function)
    effect = ", custom_call_has_side_effect=true" if has_effect else ""
    run = hloc.compile(
        f"""HloModule m
        ENTRY e {{ x = f32[2] parameter(0)
          c = () custom-call(), custom_call_target="test.effect"{effect}
          ROOT n = f32[2] negate(x) }}""",
        opt_level=level,
    )
    run(np.ones(2, np.float32))
    run(np.ones(2, np.float32))
    assert len(calls) == (2 if has_effect else 0)


@pytest.mark.parametrize("name", ["", 3])
def test_bad_names(name: Any) -> None:
    with pytest.raises(hloc.HloError, match="target is a name"):
        hloc.register_custom_call(name, print)


def test_what_cannot_be_called() -> None:
    with pytest.raises(hloc.HloError, match="needs a function"):
        hloc.register_custom_call("test.no_function", 5)  # type: ignore[arg-type]


def test_annotations_for_several_devices_are_looked_through() -> None:
    run = hloc.compile(
        """HloModule m
        add {
          p = f32[] parameter(0)
          q = f32[] parameter(1)
          ROOT t = f32[] add(p, q)
        }
        ENTRY e {
          x = f32[3] parameter(0)
          s = f32[3] custom-call(x), custom_call_target="Sharding", sharding={replicated}
          a = f32[3] all-reduce(s), to_apply=add
          ROOT r = f32[3] negate(a)
        }""",
        opt_level=0,
    )
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(run(x)[0], -x)


def test_the_evaluator_runs_registered_targets_too() -> None:
    hloc.register_custom_call("test.evaluated", lambda n, x: (n.T + x.T, np.int32(5)))
    found, number = hloc.evaluate(TEXT % "evaluated", X)
    np.testing.assert_array_equal(found, np.zeros((3, 2)))
    assert number == 5


def _call(target: str, operands: str, result: str) -> str:
    parameters = [f"p{n} = {shape} parameter({n})" for n, shape in enumerate(operands.split())]
    names = ", ".join(f"p{n}" for n in range(len(parameters)))
    lines = (*parameters, f'ROOT r = {result} custom-call({names}), custom_call_target="{target}"')
    return "HloModule m\nENTRY e {" + "\n".join(lines) + "}"


@pytest.mark.parametrize(
    ("target", "operands", "result"),
    [
        ("Pin", "f32[4]", "f32[4]"),
        ("lapack_strsm_ffi", "f32[2,2] f32[2,2]", "f32[2,2]"),
        ("cpu_csr_sparse_dense_ffi", "f32[4] s32[3] s32[4] f32[5]", "f32[2]"),
    ],
)
def test_what_was_registered_takes_the_place_of_a_known_target(
    target: str, operands: str, result: str
) -> None:
    text = _call(target, operands, result)
    arguments = [
        np.ones(p.array.dims, p.array.dtype.numpy) for p in hloc.parse(text).entry.parameters
    ]
    (known,) = hloc.compile(text)(*arguments)
    registered_targets.register_target(target, lambda *_: np.full_like(known, 7))
    try:
        assert (hloc.compile(text)(*arguments)[0] == 7).all()
        assert (hloc.evaluate(text, *arguments)[0] == 7).all()
    finally:
        del registered_targets._REGISTERED[target]
    assert not (known == 7).any()


@pytest.mark.parametrize("level", [0, 2])
def test_an_unknown_target_in_dead_code_is_no_error(level: int) -> None:
    text = """HloModule m
    ENTRY e { x = f32[4] parameter(0)
      u = f32[4] custom-call(x), custom_call_target="nobody.knows"
      d = f32[4] negate(u)
      ROOT r = f32[4] add(x, x) }"""
    assert hloc.compile(text, opt_level=level)(np.ones(4, np.float32))[0].tolist() == [2] * 4


@pytest.mark.parametrize(
    ("target", "words"),
    [("nobody", "register_custom_call"), ("__cublas$gemm", "another device")],
)
def test_a_refusal_says_what_to_do(target: str, words: str) -> None:
    text = f"""HloModule m
    ENTRY e {{ x = f32[4] parameter(0)
      ROOT u = f32[4] custom-call(x), custom_call_target="{target}" }}"""
    for call in (lambda: hloc.compile(text), lambda: hloc.evaluate(text, np.ones(4, np.float32))):
        with pytest.raises(hloc.HloError, match=words):
            call()
