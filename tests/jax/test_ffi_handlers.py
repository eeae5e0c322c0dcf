"""Handlers of the XLA FFI do on hloc what they do on JAX's CPU client.

Most are C++ as in JAX's documentation (`handlers/handlers.cc`) and need a compiler; one is made by
llvmlite and needs none.
"""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("jax.ffi")

SOURCE = Path(__file__).parent / "handlers" / "handlers.cc"
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def like(array: Any) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def on_both(program: Any, *args: Any) -> list[Any]:
    """Return what a program returns on hloc, after a look at JAX's CPU client."""
    found = []
    for platform in ("hloc", "cpu"):
        with jax.default_device(jax.devices(platform)[0]):
            found.append(jax.tree.leaves(jax.jit(program)(*args)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return [np.asarray(leaf) for leaf in found[0]]


def error_on_both(program: Any, *args: Any) -> str:
    texts = []
    for platform in ("hloc", "cpu"):
        with (
            jax.default_device(jax.devices(platform)[0]),
            pytest.raises(jax.errors.JaxRuntimeError) as caught,
        ):
            jax.block_until_ready(jax.jit(program)(*args))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    return texts[0]


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the C++ handlers and register them, once in the process."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    library = tmp_path_factory.mktemp("handlers") / "handlers.so"
    command = [compiler, "-std=c++17", "-w", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}"]
    subprocess.run([*command, str(SOURCE), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    capsule = jax.ffi.pycapsule
    for name in ("rms_norm", "sum_attributes", "copy", "add_later"):
        jax.ffi.register_ffi_target(f"test_{name}", capsule(getattr(loaded, name)))
    for name in ("type_id", "type_info"):
        getattr(loaded, f"counter_{name}").restype = ctypes.c_void_p
    counter = {
        "type_id": capsule(loaded.counter_type_id()),
        "type_info": capsule(loaded.counter_type_info()),
    }
    jax.ffi.register_ffi_type("test_counter", counter)
    stages = {"instantiate": capsule(loaded.new_counter), "execute": capsule(loaded.count)}
    jax.ffi.register_ffi_target("test_count", stages)
    jax.ffi.register_ffi_target("test_plain", capsule(loaded.plain), api_version=0)
    return loaded


def test_the_example_of_the_documentation(handlers: Any) -> None:
    def program(x: Any) -> Any:
        return jax.ffi.ffi_call("test_rms_norm", like(x))(x * 2, eps=np.float32(4)) + 1

    x = np.array([[1, 2, 2], [-2, 1, 2]], np.float32)  # whose mean of squares is 3
    (found,) = on_both(program, x)
    np.testing.assert_array_equal(found, 2 * x / 4 + 1)


def test_attributes_of_every_kind(handlers: Any) -> None:
    call = jax.ffi.ffi_call("test_sum_attributes", jax.ShapeDtypeStruct((), np.float64))
    with jax.enable_x64(True):
        attributes = {"flag": True, "number": np.int32(-7), "text": "four", "inner": {"third": 0.5}}
        (found,) = on_both(lambda: call(**attributes, list=np.array([10, 20, 30])))
    assert found == 1000 - 7 + 4 + 0.5 + 60


def test_a_missing_attribute_is_an_error_of_the_handler(handlers: Any) -> None:
    text = error_on_both(lambda x: jax.ffi.ffi_call("test_rms_norm", like(x))(x), X)
    assert "Wrong number of attributes: expected 1 but got 0" in text


def test_an_error_that_a_handler_returns_reaches_the_caller(handlers: Any) -> None:
    call = jax.ffi.ffi_call("test_rms_norm", jax.ShapeDtypeStruct((), np.float32))
    text = error_on_both(lambda x: call(x, eps=np.float32(0)), np.float32(1))
    assert text == "INVALID_ARGUMENT: RmsNorm input must be an array"
    np.testing.assert_array_equal(jax.jit(lambda x: x + 1)(X), X + 1)  # the next run is well


def test_an_attribute_that_the_ffi_has_not_is_refused_as_by_xla(handlers: Any) -> None:
    program = jax.jit(lambda x: jax.ffi.ffi_call("test_rms_norm", like(x))(x, eps=np.float16(1)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="bit width for attribute: eps"):
        program(X)


def test_state_lives_as_long_as_the_program(handlers: Any) -> None:
    call = jax.ffi.ffi_call("test_count", jax.ShapeDtypeStruct((), np.int64), has_side_effect=True)
    with jax.enable_x64(True):
        before = handlers.alive()
        compiled = jax.jit(lambda: call(start=5)).lower().compile()
        assert handlers.alive() == before + 1
        assert [int(compiled()) for _ in range(3)] == [5, 6, 7]
        del compiled
        jax.clear_caches()
        gc.collect()  # JAX's objects go, and tell hloc
        gc.collect()  # hloc's go
        assert handlers.alive() == before
        text = error_on_both(lambda: call(start=-1))
    assert text == "INVALID_ARGUMENT: start must not be negative"


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "bfloat16", "float8_e4m3fn"])
def test_any_type_of_element(handlers: Any, dtype: str) -> None:
    x = np.asarray(jax.numpy.asarray(X).astype(dtype))
    (found,) = on_both(lambda x: jax.ffi.ffi_call("test_copy", like(x))(x), x)
    assert found.dtype == x.dtype


def test_layouts_and_aliases_are_those_of_the_call(handlers: Any) -> None:
    transposed = jax.ffi.ffi_call("test_copy", like(X), input_layouts=[(1, 0)])
    (found,) = on_both(transposed, X)
    np.testing.assert_array_equal(found, X.T.reshape(2, 3))  # copied as the bytes lie
    in_place = jax.ffi.ffi_call("test_copy", like(X), input_output_aliases={0: 0})
    np.testing.assert_array_equal(on_both(lambda x: in_place(x + 1), X)[0], X + 1)


def test_vmap_and_loops_call_it_again(handlers: Any) -> None:
    row = jax.ffi.ffi_call(
        "test_rms_norm", jax.ShapeDtypeStruct((3,), np.float32), vmap_method="sequential"
    )
    on_both(jax.vmap(lambda x: row(x, eps=np.float32(1))), X)
    on_both(lambda x: jax.lax.fori_loop(0, 5, lambda _, v: row(v, eps=np.float32(1)), x), X[0])


def test_results_that_come_later_are_waited_for(handlers: Any) -> None:
    call = jax.ffi.ffi_call("test_add_later", like(X))
    (found,) = on_both(lambda x: call(call(x)), X)
    np.testing.assert_array_equal(found, X + 2)
    assert error_on_both(call, -X) == "INTERNAL: negative"


def test_functions_of_old_custom_calls(handlers: Any) -> None:
    call = jax.ffi.ffi_call("test_plain", like(X[0, :1]), custom_call_api_version=1)
    (found,) = on_both(call, X[0, 2:])
    assert found == 6


TWICE = """
%span = type {i64, ptr, i64, ptr, ptr}
%frame = type {i64, ptr, ptr, ptr, i32, %span, %span}
%buffer = type {i64, ptr, i32, ptr, i64, ptr}
define ptr @twice(ptr %frame) {
  %place = getelementptr %frame, ptr %frame, i32 0, i32 1
  %extension = load ptr, ptr %place
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %run, label %metadata
metadata:
  %at = getelementptr i8, ptr %extension, i64 24
  %known = load ptr, ptr %at
  %minor = getelementptr i8, ptr %known, i64 28
  store i32 3, ptr %minor
  ret ptr null
run:
  %args = getelementptr %frame, ptr %frame, i32 0, i32 5, i32 4
  %rets = getelementptr %frame, ptr %frame, i32 0, i32 6, i32 4
  %arglist = load ptr, ptr %args
  %retlist = load ptr, ptr %rets
  %arg = load ptr, ptr %arglist
  %ret = load ptr, ptr %retlist
  %from = getelementptr %buffer, ptr %arg, i32 0, i32 3
  %to = getelementptr %buffer, ptr %ret, i32 0, i32 3
  %source = load ptr, ptr %from
  %target = load ptr, ptr %to
  %value = load float, ptr %source
  %sum = fadd float %value, %value
  store float %sum, ptr %target
  ret ptr null
}
"""


def test_a_handler_made_without_a_compiler() -> None:
    import llvmlite.binding

    binding: Any = llvmlite.binding
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(TWICE), machine)
    engine.finalize_object()
    handler = ctypes.CFUNCTYPE(None)(engine.get_function_address("twice"))
    jax.ffi.register_ffi_target("test_twice", jax.ffi.pycapsule(handler))
    call = jax.ffi.ffi_call("test_twice", jax.ShapeDtypeStruct((), np.float32))
    (found,) = on_both(lambda x: call(x) + 1, np.float32(20))
    assert found == 41


def test_shapes_that_hlocs_own_target_does_not_know_are_the_librarys() -> None:
    call = jax.ffi.ffi_call("lapack_sgetrf_ffi", (), has_side_effect=True)
    program = jax.jit(lambda: call()).lower().compile()
    assert "lapack_sgetrf_ffi" in program.as_text()
    with pytest.raises(jax.errors.JaxRuntimeError, match="Wrong number of arguments"):
        program()


def test_an_unregistered_target_is_named_with_how_to_register_it() -> None:
    call = jax.ffi.ffi_call("test_nobody", like(X))
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r'"test_nobody" is not known.*register_ffi'
    ):
        jax.jit(lambda: call())()
