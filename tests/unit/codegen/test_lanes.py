"""Kernels whose loops make several neighbours at a time: the same answers on every processor.

Guards run time too: such a kernel is in its final form, and LLVM has no vectors to look for.
"""

from __future__ import annotations

import numpy as np
import pytest

from hloc import driver
from hloc.codegen.cpu import kernel
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.split_kernel import Split
from hloc.codegen.kernels.lanes import lane_count
from hloc.codegen.llvm.object_file import assembly_text
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.codegen.llvm.target import target_for
from hloc.options import CompileOptions
from hloc.runtime.executable import Executable
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    assert_close,
    check_root,
    emit,
    evaluate,
    kernel_text,
    module_text,
    parse_text,
    random_arrays,
    reducer,
)
from tests.unit.codegen.processors import PROCESSOR, TARGETS


def check(text: str, cpu: str, *, is_final: bool = True, tolerance: float = 1e-5) -> None:
    """Compile the module in `text`, run it, and compare with the evaluator."""
    executable = driver.compile_module(text, CompileOptions(cpu=cpu))
    assert isinstance(executable, Executable)
    compiled = executable.compiled
    assert isinstance(compiled, CpuModule)
    assert (FINAL_WITH_SLOTS in [kernel.level for kernel in compiled.kernels]) == is_final
    arguments = random_arrays(text)
    if arguments[0].dtype.kind == "f" and arguments[0].ndim:
        arguments[0].flat[-1] = np.nan
        arguments[0].flat[0] = np.inf
    found = executable(*arguments)
    expected = evaluate(parse_text(text).entry, arguments)
    assert_close(np.asarray(found[0]), np.asarray(expected), tolerance, tolerance)


def inside(parameters: list[str], members: str, root: str) -> str:
    """Return a module of several instructions."""
    return with_member(module_text(parameters, root), members)


def with_member(text: str, members: str) -> str:
    """Return the module with more instructions before the root of the entry computation."""
    return text.replace("  ROOT", f"{members}\n  ROOT")


@PROCESSOR
@pytest.mark.parametrize("size", [64, 67, 1000])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_functions_of_any_number_of_elements(dtype: str, size: int, cpu: str) -> None:
    kind = f"{dtype}[{size}]"
    members = f"""
        e = {kind} {"sqrt" if dtype == "f64" else "exponential"}(p0)
        n = {kind} negate(e)
        c = pred[{size}] compare(n, p1), direction=LT
    """
    text = inside([kind, kind], members, f"{kind} select(c, n, p1)")
    check(text, cpu, tolerance=1e-5 if dtype in ("f32", "f64") else 0.02)


@PROCESSOR
@pytest.mark.parametrize("size", [3, 50, 64])
def test_broadcasts_and_counts_along_lanes(size: int, cpu: str) -> None:
    """A row and a column have one element for all lanes, and one for each; so has an iota."""
    kind = f"s32[5,{size}]"
    members = f"""
        i = {kind} iota(), iota_dimension=1
        row = {kind} broadcast(p1), dimensions={{1}}
        c = {kind} broadcast(p2), dimensions={{0}}
        s = {kind} add(row, c)
        m = {kind} multiply(s, i)
    """
    text = inside([kind, f"s32[{size}]", "s32[5]"], members, f"{kind} xor(m, p0)")
    more_rows_than_lanes = cpu == "x86-64"  # so that those of 3 elements are side by side
    check(text, cpu, is_final=size > 16 or more_rows_than_lanes)


@PROCESSOR
@pytest.mark.parametrize("size", [33, 64])
def test_complex_numbers(size: int, cpu: str) -> None:
    """Parts that alternate in memory are brought apart and together again."""
    kind = f"c64[{size}]"
    members = f"""
        m = {kind} multiply(p0, p1)
        re = f32[{size}] real(m)
        i = f32[{size}] imag(p0)
        z = {kind} complex(i, re)
    """
    check(inside([kind, kind], members, f"{kind} divide(z, p1)"), cpu, tolerance=1e-4)


@pytest.mark.parametrize("opcode", ["add", "multiply"])
@pytest.mark.parametrize(("result", "dims"), [("40", "1"), ("64", "0")])
def test_reductions_of_complex_numbers(opcode: str, result: str, dims: str) -> None:
    """Sums are those of parts. Rows keep products in variables, which are not complex in lanes."""
    root = f"c64[{result}] reduce(p0, p1), dimensions={{{dims}}}, to_apply=f"
    text = module_text(["c64[40,64]", "c64[]"], root, reducer("f", opcode, "c64"))
    check(text, "", is_final=opcode == "add" or dims == "0", tolerance=1e-4)


@PROCESSOR
@pytest.mark.parametrize("shape", [(3, 16), (3, 67), (2, 1024), (2, 3000), (5, 9), (5, 3)])
@pytest.mark.parametrize(
    ("opcode", "dtype"),
    [
        ("add", "f32"),
        ("maximum", "f32"),
        ("minimum", "bf16"),
        ("multiply", "s32"),
        ("or", "pred"),
        ("add", "pred"),  # stays true, however many are
    ],
)
def test_rows(opcode: str, dtype: str, shape: tuple[int, int], cpu: str) -> None:
    """Whole blocks, the rest of them, single vectors, and some last elements that count once.

    Rows that fill half of a vector only are made in vectors of half the size.
    """
    rows, size = shape
    root = f"{dtype}[{rows}] reduce(n, p1), dimensions={{1}}, to_apply=f"
    source = [f"{dtype}[{rows},{size}]", f"{dtype}[]"]
    member = f"  n = {source[0]} {'not' if dtype == 'pred' else 'negate'}(p0)"
    text = with_member(module_text(source, root, reducer("f", opcode, dtype)), member)
    lanes = lane_count(parse_text(text).entry.root, target_for(cpu=cpu))
    check(text, cpu, is_final=size >= max(lanes // 2, 4), tolerance=1e-4)


@PROCESSOR
@pytest.mark.parametrize("size", [33, 64, 1100])
@pytest.mark.parametrize("rows", [7, 2100])
def test_columns(rows: int, size: int, cpu: str) -> None:
    """The last columns are added up twice, each time on their own."""
    root = f"f32[{size}] reduce(n, p1), dimensions={{0}}, to_apply=f"
    kind = f"f32[{rows},{size}]"
    text = module_text([kind, "f32[]"], root, reducer("f", "add", "f32"))
    check(with_member(text, f"  n = {kind} negate(p0)"), cpu, tolerance=1e-4)


@PROCESSOR
@pytest.mark.parametrize("size", [50, 300])
def test_windows(size: int, cpu: str) -> None:
    """Padding of other dimensions than that of the lanes, which are all inside or all outside."""
    window = "window={size=1x3x1 stride=1x2x1 pad=0_0x1_1x0_0}"
    root = f"s32[2,5,{size}] reduce-window(p0, p1), {window}, to_apply=f"
    text = module_text([f"s32[2,9,{size}]", "s32[]"], root, reducer("f", "maximum", "s32"))
    check(text, cpu, is_final=size == 50)  # larger windows become operations on padded arrays


@pytest.mark.parametrize("size", [64, 67])
def test_a_result_over_its_operand(size: int) -> None:
    """Elements that are made twice must not be made of results; masks or a loop make each once."""
    kind = f"f32[{size}]"
    text = module_text([kind], f"{kind} exponential(p0)")
    root = parse_text(text).entry.root
    for machine in TARGETS:
        given = random_arrays(text)
        check_root(text, given, **bounds("f32 function"), aliased=(0,), target=machine)
        assert emit(root, (0,), target=machine).level == FINAL_WITH_SLOTS


@pytest.mark.parametrize("size", [5, 7, 15, 17, 33])
def test_rows_that_end_in_a_part_of_a_vector(size: int) -> None:
    """Neither reads nor writes reach beyond a row, over its operand too."""
    rows = f"f32[6,{size}]"
    root = f"{rows} add(p0, p1)"
    for aliased in ((None,), (0,)):
        text = module_text([rows, rows], root)
        for machine in TARGETS:
            given = random_arrays(text)
            check_root(text, given, **bounds("f32 function"), aliased=aliased, target=machine)


@pytest.mark.parametrize(
    ("split", "is_final"), [(Split(1, 2, 64, 1), False), (Split(64, 64, 2, 1), True)]
)
def test_parts_of_threads_are_whole_vectors(
    monkeypatch: pytest.MonkeyPatch, split: Split, is_final: bool
) -> None:
    """A vector that begins in the middle of another would end behind the result."""
    monkeypatch.setattr(kernel, "split_of", lambda *_: split)
    made = emit(parse_text(module_text(["f32[128]"], "f32[128] negate(p0)")).entry.root)
    assert (made.level == FINAL_WITH_SLOTS) == is_final


def test_functions_of_the_c_library_need_scalars() -> None:
    """Machines without fused multiply-adds call it for functions of f64."""
    text = module_text(["f64[64]"], "f64[64] tan(p0)")
    assert emit(parse_text(text).entry.root, target=target_for("x86_64")).level is None
    for machine in TARGETS:
        check_root(text, random_arrays(text), **bounds("f64 function"), target=machine)


def test_coefficients_are_operands_in_memory_where_no_instruction_broadcasts_them() -> None:
    """AVX2 has 16 registers: coefficients that do not fit would be broadcast in every iteration."""
    root = parse_text(module_text(["f32[4096]"], "f32[4096] erf(p0)")).entry.root
    haswell, skylake = (target_for("x86_64", cpu) for cpu in ("haswell", "skylake-avx512"))
    made = emit(root, target=haswell)
    assert made.level is not None
    lines = assembly_text(kernel_text(made), haswell, made.level).splitlines()
    (loop_end,) = (i for i, line in enumerate(lines) if line.split()[:1] == ["jl"])
    label = f"{lines[loop_end].split()[1]}:"
    loop = lines[lines.index(label) : loop_end]
    assert sum("vfmadd" in line and "(%rip)" in line for line in loop) > 8
    assert sum("broadcast" in line for line in loop) < 4  # bounds, which are compared
    assert "externally_initialized" in kernel_text(made)
    assert "externally_initialized" not in kernel_text(emit(root, target=skylake))


GROWN = """HloModule m
body {{
  p0 = f32[{n}] parameter(0)
  p1 = f32[{n}] parameter(1)
  is_less = pred[{n}] compare(p0, p1), direction=LT
  sum = f32[{n}] add(p0, p1)
  ROOT r = f32[{n}] select(is_less, sum, p0)
}}
ENTRY e {{
  p0 = f32[{n}] parameter(0)
  p1 = f32[{n}] parameter(1)
  ROOT r = f32[{n}] fusion(p0, p1), kind=kLoop, calls=body
}}"""


@pytest.mark.parametrize("size", [64, 99])
def test_chosen_elements_over_their_operand_are_stored_whole(size: int) -> None:
    """In lanes and by LLVM's vectoriser: AMD's processors take long for `vmaskmov`."""
    text, haswell = GROWN.format(n=size), target_for("x86_64", "haswell")
    made = emit(parse_text(text).entry.root, (0,), target=haswell)
    level = 2 if made.level is None else made.level
    in_a_loop = kernel_text(made).replace("optsize ", "")  # with it, LLVM masks the last vector
    assert "vmaskmov" not in assembly_text(in_a_loop, haswell, level)
    for machine in TARGETS:
        check_root(text, random_arrays(text), aliased=(0,), target=machine)
