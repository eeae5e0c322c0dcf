"""Objects that hloc places in memory do what they do if LLVM's linker loads them."""

import ctypes
import sys
from collections.abc import Sequence

import pytest

from hloc.codegen.llvm.object_file import ALLOWED_SYMBOLS, compile_object
from hloc.codegen.llvm.target import host_target
from hloc.runtime import cpu_loader
from hloc.runtime.cpu_loader import LoadedCode, load_functions
from hloc.runtime.elf_loader import load_elf
from tests.tolerance import assert_close

pytestmark = pytest.mark.skipif(
    not (host_target().triple.startswith("x86_64") and sys.platform == "linux"),
    reason="places ELF objects for x86-64",
)

CALLER = """
@numbers = private unnamed_addr constant [4 x i64] [i64 10, i64 20, i64 30, i64 40], align 64
declare double @other(double, ptr, i64)
declare double @cosh(double)
define double @entry(double %x, i64 %i) nounwind {
  %at = getelementptr i64, ptr @numbers, i64 %i
  %n = load i64, ptr %at
  %y = call double @other(double %x, ptr @cosh, i64 %n)
  %z = call double @cosh(double %y)
  ret double %z
}
"""
OTHER = """
define internal double @local(i64 %n) noinline nounwind {
  %d = sitofp i64 %n to double
  ret double %d
}
define double @other(double %x, ptr %function, i64 %n) nounwind {
  %y = call double %function(double %x)
  %d = call double @local(i64 %n)
  %e = fmul double %d, 0x3FB999999999999A
  %z = fsub double %y, %e
  ret double %z
}
"""
TABLE = """
@places = constant [1 x ptr] [ptr @entry], align 8
define ptr @entry() nounwind {
  %p = load ptr, ptr @places
  ret ptr %p
}
"""
STATE = """
@state = internal global i64 0
define i64 @entry() nounwind {
  %n = load i64, ptr @state
  %m = add i64 %n, 1
  store i64 %m, ptr @state
  ret i64 %m
}
"""


def objects_of(*texts: str, level: int = 2) -> list[bytes]:
    names = frozenset({"entry", "other", "system"})
    return [compile_object(text, host_target(), level, names) for text in texts]


def address_of(name: str) -> int | None:
    return cpu_loader._address(name) if name in ALLOWED_SYMBOLS else None


def by_llvm(objects: Sequence[bytes]) -> LoadedCode:
    return cpu_loader._linker(host_target()).load(objects, ("entry",), ALLOWED_SYMBOLS)


@pytest.mark.parametrize("level", [0, 2])
def test_calls_tables_and_functions_outside(level: int) -> None:
    objects = objects_of(CALLER, OTHER, level=level)
    assert load_elf(objects, ("entry",), address_of) is not None
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)
    placed = load_functions(objects, host_target(), ("entry", "other"), ALLOWED_SYMBOLS)
    linked = by_llvm(objects)
    for i in range(4):
        expected = kind(linked.address)(1.5, i)
        assert kind(placed.address)(1.5, i) == expected
    assert placed.addresses[1] != placed.addresses[0]


def test_memory_of_code_cannot_be_written_and_is_freed() -> None:
    def mapping(address: int) -> str:
        with open("/proc/self/maps") as file:
            for line in file:
                first, last = (int(x, 16) for x in line.split()[0].split("-"))
                if first <= address < last:
                    return line.split()[1]
        return ""

    found = load_elf(objects_of(CALLER, OTHER), ("entry",), address_of)
    assert found is not None
    (address,), memory = found
    assert mapping(address) == "r-xp"
    del found, memory
    assert mapping(address) != "r-xp"


@pytest.mark.parametrize("text", [TABLE, STATE], ids=["relocated", "state"])
def test_data_that_is_written_is_left_to_llvm(text: str) -> None:
    objects = objects_of(text)
    assert load_elf(objects, ("entry",), address_of) is None
    assert load_functions(objects, host_target(), ("entry",), ALLOWED_SYMBOLS).address


def test_what_is_missing_or_twice_or_forbidden_is_left_to_llvm() -> None:
    caller, other = objects_of(CALLER, OTHER)
    (calls_system,) = objects_of(CALLER.replace("cosh", "system"))
    for objects in ([caller], [caller, other, other], [calls_system, other], [b"MZ"], []):
        assert load_elf(objects, ("entry",), address_of) is None
    assert load_elf([other], ("entry",), address_of) is None


def test_damaged_objects_are_left_to_llvm() -> None:
    (data,) = objects_of(OTHER)
    for size in range(0, len(data), 7):
        assert load_elf([data[:size]], ("other",), address_of) is None


def test_programs_are_placed_by_hloc(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    import hloc

    def refuse(*_: object) -> None:
        raise AssertionError("loaded by LLVM")

    monkeypatch.setattr(cpu_loader._Linker, "load", refuse)
    text = (
        "HloModule m\n\nENTRY e {\n  x = f64[7,300] parameter(0)\n  y = f64[7,300] tan(x)\n"
        "  ROOT d = f64[7,7] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n"
    )
    x = np.random.default_rng(0).normal(size=(7, 300))
    assert_close(np.asarray(hloc.compile(text)(x)[0]), np.tan(x) @ x.T)
