"""Objects may ask for functions of the C library that are allowed, and for nothing else."""

import pytest

from hloc.codegen.llvm.object_file import check_symbols, compile_object, undefined_symbols
from hloc.codegen.llvm.target import host_target
from hloc.errors import InternalError

CALLS = """
declare float @%s(float)
define void @f(ptr %%p) {
  %%x = load float, ptr %%p
  %%y = call float @%s(float %%x)
  store float %%y, ptr %%p
  ret void
}
"""


def test_functions_of_the_math_library_are_allowed() -> None:
    data = compile_object(CALLS % ("expf", "expf"), host_target(), 2)
    assert set(undefined_symbols(data)) <= {"expf"}


def test_other_functions_are_refused() -> None:
    if not host_target().triple.endswith("linux-gnu"):
        pytest.skip("reads ELF objects")
    with pytest.raises(InternalError, match="unknown symbols: system"):
        compile_object(CALLS % ("system", "system"), host_target(), 2)


def test_other_units_may_be_named() -> None:
    data = compile_object(CALLS % ("kernel", "kernel"), host_target(), 0, frozenset({"kernel"}))
    check_symbols(data, also=frozenset({"kernel"}))


def test_wrong_text_is_a_fault_of_hloc() -> None:
    with pytest.raises(InternalError, match="generated LLVM IR is invalid"):
        compile_object("define void @f() { ret i32 1 }", host_target(), 0)


def test_other_formats_have_no_symbols_here() -> None:
    assert undefined_symbols(b"MZ not an object") == ()


def test_the_target_is_known() -> None:
    target = host_target()
    assert target.vector_bits in (128, 256, 512)
    assert 0 < target.l1_bytes <= target.l2_bytes
    assert not target.has("no-such-feature")
