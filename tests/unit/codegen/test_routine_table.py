"""Routines that are compiled with the installation are those that programs call."""

import pytest

from hloc.codegen.cpu.backend import CpuBackend, CpuModule
from hloc.codegen.cpu.emitters.routine_table import MAKERS, all_routines
from hloc.codegen.cpu.split_routine import split_routine
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target, host_target, target_for
from hloc.options import CompileOptions
from hloc.parser import parse
from hloc.source import SourceFile

DOT = """HloModule m
ENTRY e {{
  x = {left}[{x}] parameter(0)
  y = {right}[{y}] parameter(1)
  ROOT d = {result}[{m},{n}] dot(x, y), lhs_contracting_dims={{{i}}}, rhs_contracting_dims={{{j}}}
}}
"""

CONVOLUTION = """HloModule m
ENTRY e {
  x = f32[2,16,16,32] parameter(0)
  k = f32[3,3,32,64] parameter(1)
  ROOT c = f32[2,16,16,64] convolution(x, k), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f
}
"""


@pytest.fixture(scope="module")
def known() -> dict[str, Routines]:
    return all_routines(host_target())


def _called(text: str) -> list[Routines]:
    module = parse(SourceFile(text, "m"))
    compiled = CpuBackend().compile(module, CompileOptions())
    assert isinstance(compiled, CpuModule)
    return [routine for kernel in compiled.kernels for routine in kernel.routines]


def _dot(
    types: tuple[str, str, str], sizes: tuple[int, int, int], contracted: tuple[int, int]
) -> str:
    m, k, n = sizes
    i, j = contracted
    return DOT.format(
        left=types[0],
        right=types[1],
        result=types[2],
        x=f"{m},{k}" if i else f"{k},{m}",
        y=f"{n},{k}" if j else f"{k},{n}",
        m=m,
        n=n,
        i=i,
        j=j,
    )


@pytest.mark.parametrize("contracted", [(1, 0), (0, 0), (1, 1), (0, 1)])
@pytest.mark.parametrize("sizes", [(256, 256, 256), (64, 63, 8192), (8, 515, 640)])
@pytest.mark.parametrize(
    "types",
    [
        ("f32", "f32", "f32"),
        ("bf16", "bf16", "bf16"),
        ("bf16", "bf16", "f32"),
        ("f16", "f16", "f16"),
        ("f64", "f64", "f64"),
        ("s8", "s8", "s32"),
        ("c64", "c64", "c64"),
    ],
    ids="-".join,
)
def test_products_call_routines_of_the_table(
    known: dict[str, Routines],
    types: tuple[str, str, str],
    sizes: tuple[int, int, int],
    contracted: tuple[int, int],
) -> None:
    for routine in _called(_dot(types, sizes, contracted)):
        assert _is_same(known[routine.name], routine)


@pytest.mark.parametrize("columns", [4, 8, 16, 24, 100])
def test_products_of_rows_side_by_side_call_routines_of_the_table(
    known: dict[str, Routines], columns: int
) -> None:
    """Rows that are contiguous in the left-hand side are packed, however few columns there are."""
    called = _called(_dot(("f32", "f32", "f32"), (512, 96, columns), (0, 0)))
    assert called
    assert all(_is_same(known[routine.name], routine) for routine in called)


def test_convolutions_call_routines_of_the_table(known: dict[str, Routines]) -> None:
    called = _called(CONVOLUTION)
    assert called
    assert all(_is_same(known[routine.name], routine) for routine in called)


def _is_same(one: Routines, other: Routines) -> bool:
    return one == other and one.text == other.text


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(host_target(), id="host"),
        pytest.param(target_for("x86_64", "haswell"), id="haswell", marks=pytest.mark.slow),
        pytest.param(target_for("aarch64"), id="aarch64"),
    ],
)
def test_names_of_routines_say_all_that_they_depend_on(target: Target) -> None:
    found: dict[str, Routines] = {}
    for routine in (routine for maker in MAKERS for routine in maker(target)):
        assert _is_same(found.setdefault(routine.name, routine), routine)


@pytest.mark.slow
def test_the_table_shares_no_name_with_routines_of_kernels_on_threads(
    known: dict[str, Routines],
) -> None:
    """An object is found by the name of its routine."""
    assert not {split_routine(count).name for count in range(100)} & set(known)


def test_all_routines_compile(known: dict[str, Routines]) -> None:
    """LLVM takes each of them, and none calls what there is not."""
    symbols = frozenset(name for routine in known.values() for name in routine.symbols)
    for routine in known.values():
        assert compile_object(routine.text, host_target(), routine.level, symbols)
