"""Calling executables: what is accepted, what is refused and how, and who owns what."""

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloc
from hloc.errors import UnsupportedError
from hloc.runtime.executable import Executable
from tests.waiting import all_at_once

ADD = """HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  ROOT r = f32[2,3] add(x, y)
}"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def add() -> Executable:
    return hloc.compile(ADD)


def test_arrays_in_list_of_arrays_out(add: Executable) -> None:
    (found,) = add(X, X)
    np.testing.assert_array_equal(found, X + X)
    assert found.dtype == np.float32


def test_outputs_own_their_memory(add: Executable) -> None:
    (first,) = add(X, X)
    kept = first.copy()
    add(X * 7, X)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    "y",
    [
        np.asfortranarray(X),
        np.stack([X, X], axis=2)[:, :, 0],
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
        X[::-1][::-1],
    ],
    ids=["other order", "strided", "not aligned, read-only", "reversed twice"],
)
def test_any_strides_are_taken(add: Executable, y: Any) -> None:
    np.testing.assert_array_equal(add(X, y)[0], X + X)


def test_a_read_only_argument_is_used_and_not_written(add: Executable) -> None:
    x = X.copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(add(x, x)[0], X + X)


class WithArray:
    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        return X


class WithDlpack:
    def __dlpack__(self, **keywords: object) -> object:
        return X.copy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return X.__dlpack_device__()


@pytest.mark.parametrize("argument", [WithArray(), WithDlpack()])
def test_objects_that_convert_to_arrays(add: Executable, argument: Any) -> None:
    np.testing.assert_array_equal(add(X, argument)[0], X + X)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X,), "expected 2 arguments, but got 1"),
        ((X, X.T), r"parameter 1 \(y\) must be f32\[2,3\], but the argument is f32\[3,2\]"),
        ((X.astype(np.float64), X), r"parameter 0 \(x\) must be f32\[2,3\].* is f64\[2,3\]"),
        ((X, "text"), r"parameter 1 \(y\) must be an array f32\[2,3\].* is a str"),
        ((X, None), r"parameter 1 \(y\) must be an array .* is a NoneType"),
        ((X, np.array([["a"]])), r"parameter 1 \(y\) must be f32\[2,3\]"),
    ],
)
def test_wrong_arguments(add: Executable, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(hloc.HloError, match=words):
        add(*arguments)
    np.testing.assert_array_equal(add(X, X)[0], X + X)  # the executable still works


def test_parts_of_tuples_are_named() -> None:
    run = hloc.compile(
        """HloModule m
        ENTRY e {
          p = (f32[2], (s32[], token[])) parameter(0)
          a = f32[2] get-tuple-element(p), index=0
          ROOT r = f32[2] negate(a)
        }"""
    )
    a = np.ones(2, np.float32)
    np.testing.assert_array_equal(run(a, np.int32(3))[0], -a)
    with pytest.raises(hloc.HloError, match=r"parameter 0 \(p\) at \{1,0\} must be s32\[\]"):
        run(a, np.zeros(3, np.int32))


def test_results_are_flattened_depth_first_without_tokens() -> None:
    run = hloc.compile(
        """HloModule m
        ENTRY e {
          a = f32[2] parameter(0)
          b = s32[] parameter(1)
          k = token[] after-all()
          i = (s32[], token[], f32[2]) tuple(b, k, a)
          ROOT r = (f32[2], (s32[], token[], f32[2]), f32[2]) tuple(a, i, a)
        }"""
    )
    a, b = np.ones(2, np.float32), np.int32(5)
    found = run(a, b)
    assert [x.shape for x in found] == [(2,), (), (2,), (2,)]
    assert found[1] == 5
    found[0][:] = 7  # outputs are distinct arrays, and not the argument
    assert a[0] == 1
    assert found[2][0] == found[3][0] == 1


@pytest.mark.parametrize("layouts", [("{0,1}", "{1,0}"), ("{1,0}", "{0,1}"), ("{0,1}", "{0,1}")])
def test_layouts_do_not_show(layouts: tuple[str, str]) -> None:
    inside, outside = layouts
    run = hloc.compile(
        f"""HloModule m
        ENTRY e {{
          x = f32[2,3]{inside} parameter(0)
          c = f32[2,3]{inside} constant({{{{1,2,3}},{{4,5,6}}}})
          y = f32[2,3]{inside} add(x, c)
          ROOT r = f32[2,3]{outside} copy(y)
        }}"""
    )
    expected = X + np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    np.testing.assert_array_equal(run(X)[0], expected)
    np.testing.assert_array_equal(run(np.asfortranarray(X))[0], expected)


def test_arrays_without_elements() -> None:
    run = hloc.compile(
        """HloModule m
        ENTRY e {
          x = f32[0,3] parameter(0)
          n = f32[0,3] negate(x)
          z = f32[] constant(2)
          s = f32[3] broadcast(z), dimensions={}
          ROOT r = (f32[0,3], f32[3]) tuple(n, s)
        }"""
    )
    empty, full = run(np.zeros((0, 3), np.float32))
    assert empty.shape == (0, 3)
    np.testing.assert_array_equal(full, [2, 2, 2])


def test_types_that_numpy_lacks() -> None:
    run = hloc.compile(
        """HloModule m
        ENTRY e {
          x = bf16[3] parameter(0)
          y = s4[3] parameter(1)
          n = bf16[3] negate(x)
          ROOT r = (bf16[3], s4[3]) tuple(n, y)
        }"""
    )
    x = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
    y = np.array([-8, 0, 7], ml_dtypes.int4)
    negated, same = run(x, y)
    assert negated.dtype == x.dtype
    np.testing.assert_array_equal(negated, -x)
    np.testing.assert_array_equal(same, y)


def test_python_numbers_are_scalars() -> None:
    run = hloc.compile(
        "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT r = f32[] negate(x)\n}"
    )
    assert run(2.5)[0] == -2.5


def test_several_threads_may_call_at_once() -> None:
    """Each call under way has an arena of its own."""
    run = hloc.compile(
        """HloModule m
        ENTRY e {
          x = f32[20000] parameter(0)
          a = f32[20000] reverse(x), dimensions={0}
          b = f32[20000] negate(a)
          c = f32[20000] reverse(b), dimensions={0}
          d = f32[20000] add(c, c)
          ROOT r = f32[20000] reverse(d), dimensions={0}
        }""",
        opt_level=0,
    )
    faults = []

    def work(number: int) -> None:
        x = np.arange(20000, dtype=np.float32) + number
        for _ in range(30):
            if not np.array_equal(run(x)[0], (-2 * x)[::-1]):
                faults.append(number)

    all_at_once(4, work)
    assert not faults


BIG = """HloModule m
ENTRY e {
  x = f32[] parameter(0)
  ROOT r = f32[%s] broadcast(x), dimensions={}
}"""


def test_the_memory_limit_is_checked_before_anything_is_allocated() -> None:
    with pytest.raises(hloc.HloError, match=r"needs 4000 bytes to run, more than the memory limit"):
        hloc.compile(BIG % "1000", memory_limit_bytes=3999)
    hloc.compile(BIG % "1000", memory_limit_bytes=4000)


def test_a_module_larger_than_the_machine_is_refused() -> None:
    with pytest.raises(hloc.HloError, match="more than the memory of this machine"):
        hloc.compile(BIG % "1000000000,1000000")


def test_elided_constants() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[20] parameter(0)
      c = f32[20] constant({...})
      ROOT r = f32[20] add(x, c)
    }"""
    with pytest.raises(hloc.HloError, match=r"constant c has no values"):
        hloc.compile(text)
    x = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(hloc.compile(text, fill_constants="zeros")(x)[0], x)


def test_all_unsupported_instructions_are_reported_at_once() -> None:
    with pytest.raises(UnsupportedError) as caught:
        hloc.compile(
            """HloModule m
            ENTRY e {
              x = f32[4] parameter(0)
              t = token[] after-all()
              a = (f32[4], token[]) infeed(t)
              b = (f32[4], token[]) infeed(t)
              ROOT c = f32[4] custom-call(x), custom_call_target="nobody"
            }""",
            opt_level=0,
        )
    text = str(caught.value)
    assert "infeed (2 times a, b) cannot run" in text
    assert 'custom-call target "nobody" is not known' in text
    assert "register_custom_call('nobody', function)" in text


def test_stages_are_there(add: Executable) -> None:
    assert "is_scheduled=true" in add.stage("hlo")
    assert "define void @hloc_entry" in add.stage("llvm-ir")
    assert "define" in add.stage("llvm-ir-opt")
    assert "hloc_entry:" in add.stage("asm")
    assert add.stage("object")[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"d\x86\x00\x00")
    assert "outputs 24" in add.stage("buffers")
    with pytest.raises(hloc.HloError, match="there is no stage 'ptx'; stages are hlo"):
        add.stage("ptx")


def test_unknown_target() -> None:
    with pytest.raises(hloc.HloError, match="there is no target 'abacus'; targets are cpu"):
        hloc.compile(ADD, target="abacus")


def test_a_call_costs_microseconds(add: Executable) -> None:
    """The bound is loose, for busy machines; what it must catch is work that grew with calls."""
    best = min(_seconds_per_call(add) for _ in range(5))
    assert best < 100e-6


def _seconds_per_call(run: Executable) -> float:
    start = time.process_time()
    for _ in range(200):
        run(X, X)
    return (time.process_time() - start) / 200


def test_one_computation_may_serve_many_callers() -> None:
    """Both branches, two loops and a call share one body; each gets its own buffers."""
    run = hloc.compile(
        """HloModule m
        f {
          p = f32[4] parameter(0)
          c = f32[4] constant({1, 2, 3, 4})
          ROOT a = f32[4] add(p, c)
        }
        ENTRY e {
          x = f32[4] parameter(0)
          w = pred[] parameter(1)
          a = f32[4] call(x), to_apply=f
          b = f32[4] conditional(w, a, x), true_computation=f, false_computation=f
          ROOT r = f32[4] call(b), to_apply=f
        }""",
        opt_level=0,
    )
    x, c = np.ones(4, np.float32), np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(run(x, True)[0], x + 3 * c)
    np.testing.assert_array_equal(run(x, False)[0], x + 2 * c)


@pytest.mark.parametrize(("index", "expected"), [(0, 10), (1, 20), (2, 30), (-1, 30), (7, 30)])
def test_a_branch_index_out_of_range_is_the_last(index: int, expected: int) -> None:
    branches = "".join(
        f"b{i} {{ p{i} = s32[] parameter(0)\n ROOT c{i} = s32[] constant({10 * i + 10}) }}\n"
        for i in range(3)
    )
    run = hloc.compile(
        f"""HloModule m
        {branches}
        ENTRY e {{
          i = s32[] parameter(0)
          ROOT r = s32[] conditional(i, i, i, i), branch_computations={{b0, b1, b2}}
        }}""",
        opt_level=0,
    )
    assert run(np.int32(index))[0] == expected


def test_constants_of_terabytes_in_a_line_of_text_are_refused_as_any_large_module() -> None:
    text = """HloModule m
ENTRY e {
  a = f32[1000000,1000000] constant(0)
  b = f32[1000000,1000000] constant(0)
  c = f32[1000000,1000000] negate(a)
  ROOT r = (f32[1000000,1000000], f32[1000000,1000000]) tuple(b, c)
}"""
    with pytest.raises(hloc.HloError, match="more than the memory of this machine"):
        hloc.compile(text)()
