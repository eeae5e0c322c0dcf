"""`use_library=("blas",)`: which products BLAS takes over, what it computes, and who says no."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import hloc
from hloc.codegen.backend import backend_for, libraries_of
from hloc.codegen.cpu.libraries import call_libraries
from hloc.errors import HloError, UnsupportedError
from hloc.ops.custom_calls import blas
from tests.tolerance import bounds
from tests.unit.codegen.harness import module_text, parse_text, random_arrays


def targets_of(text: str) -> list[str]:
    """Return the targets of custom calls that a module gets."""
    module = parse_text(text)
    call_libraries(module, ("blas",))
    calls = (i for i in module.entry.instructions if i.is_a("custom-call"))
    return [i.attributes.custom_call_target for i in calls]


def batched(dtype: str, left: int, right: int, batch: tuple[int, ...] = ()) -> str:
    """Return 37 x 53 results over k of 29; 1 as `left` or `right` is a transposed operand."""
    front = "".join(f"{size}," for size in batch)
    count = len(batch)
    dims = ",".join(map(str, range(count)))
    lhs, rhs = (["37,29", "29,37"][left], ["29,53", "53,29"][right])
    root = (
        f"{dtype}[{front}37,53] dot(p0, p1), lhs_batch_dims={{{dims}}}, "
        f"lhs_contracting_dims={{{count + 1 - left}}}, rhs_batch_dims={{{dims}}}, "
        f"rhs_contracting_dims={{{count + right}}}"
    )
    return module_text([f"{dtype}[{front}{lhs}]", f"{dtype}[{front}{rhs}]"], root)


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_of_blas(dtype: str, left: int, right: int) -> None:
    pytest.importorskip("scipy")
    text = batched(dtype, left, right, (2, 3) if dtype == "f32" else ())
    assert targets_of(text) == [f"hloc_blas_{'nt'[left]}{'nt'[right]}_gemm"]
    arrays = random_arrays(text)
    executable = hloc.compile(text, use_library=("blas",))
    assert "hloc_blas" in executable.stage("hlo")
    (found,), (expected,) = executable(*arrays), hloc.evaluate(text, *arrays)
    np.testing.assert_allclose(found, expected, **bounds("f32 sum"))


@pytest.mark.parametrize(
    "text",
    [
        batched("bf16", 0, 0),
        batched("s32", 0, 0),
        batched("f32", 0, 0).replace("[37,53]", "[37,53]{0,1}"),
        module_text(["f32[8,8]", "f32[8]"], "f32[8] dot(p0, p1), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}"),
        batched("f32", 0, 0).replace("contracting_dims={0}\n", "contracting_dims={0}, "
                                     "algorithm=dot_bf16_bf16_f32\n"),
    ],
)  # fmt: skip
def test_other_products_keep_their_kernel(text: str) -> None:
    pytest.importorskip("scipy")
    assert not targets_of(text)


def test_the_evaluator_knows_the_custom_call() -> None:
    """The module after all passes says what BLAS computes."""
    pytest.importorskip("scipy")
    text = batched("f64", 0, 1)
    arrays = random_arrays(text)
    stage = hloc.compile(text, use_library=("blas",)).stage("hlo")
    (found,), (expected,) = hloc.evaluate(str(stage), *arrays), hloc.evaluate(text, *arrays)
    np.testing.assert_allclose(found, expected, **bounds("f64 sum"))


def test_matrices_of_one_row_keep_their_places_in_a_batch() -> None:
    """NumPy may give any stride to a dimension of size 1, which a transpose leaves so."""
    pytest.importorskip("scipy")
    root = 'f32[3,1,2] custom-call(t, p1), custom_call_target="hloc_blas_nn_gemm"'
    text = module_text(["f32[3,5,1]", "f32[3,5,2]"], root).replace(
        "  ROOT", "  t = f32[3,1,5] transpose(p0), dimensions={0,2,1}\n  ROOT"
    )
    lhs, rhs = random_arrays(text)
    (found,) = hloc.evaluate(text, lhs, rhs)
    np.testing.assert_allclose(found, lhs.transpose(0, 2, 1) @ rhs, **bounds("f32 one sign"))


def test_a_custom_call_of_wrong_shapes_is_refused() -> None:
    root = 'f32[4,4] custom-call(p0, p1), custom_call_target="hloc_blas_nn_gemm"'
    text = module_text(["f32[4,5]", "f32[6,4]"], root)
    with pytest.raises(UnsupportedError, match="not known with these shapes"):
        hloc.compile(text)


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    blas.gemm.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"hloc\[lapack\]"):
        call_libraries(parse_text(batched("f32", 0, 0)), ("blas",))
    blas.gemm.cache_clear()


def test_each_target_says_which_libraries_it_calls() -> None:
    assert libraries_of(backend_for("cpu")) == ("blas",)
    with pytest.raises(HloError, match="'cpu' calls no library 'cudnn'; it calls blas"):
        hloc.compile(batched("f32", 0, 0), use_library=("cudnn",))


@pytest.mark.parametrize("layouts", [("0,1", "1,0", "1,0"), ("1,0", "0,1", "0,1"), ("0,1",) * 3])
def test_a_custom_call_on_other_layouts_is_the_same_product(layouts: tuple[str, ...]) -> None:
    """The routine counts on row-major arrays, which a text need not have."""
    pytest.importorskip("scipy")
    lhs, rhs, out = layouts
    text = (
        f"HloModule m\nENTRY e {{\n  x = f32[3,4]{{{lhs}}} parameter(0)\n"
        f"  y = f32[4,5]{{{rhs}}} parameter(1)\n  ROOT r = f32[3,5]{{{out}}} custom-call(x, y), "
        'custom_call_target="hloc_blas_nn_gemm"\n}\n'
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(hloc.compile(text)(x, y)[0], x @ y)
