"""Schedules of loops over elements: several vectors per iteration give the same bits as one."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.cpu.cpu_plan import LOOP_SCHEDULES, LoopSchedule
from hloc.codegen.cpu.kernel import choices_of, emit_kernel
from hloc.codegen.kernels.lanes import has_masks
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.codegen.llvm.target import Target, host_target
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.ops import OPCODES, names_of
from tests.unit.codegen.harness import (
    Compiled,
    emit,
    module_text,
    parse_text,
    random_arrays,
    run_instruction,
)
from tests.unit.codegen.processors import TARGETS

OPERATIONS = [
    ("f32", "f32", "erf(p0)"),
    ("f32", "f32", "power(p0, p1)"),
    ("f64", "f64", "log(p0)"),
    ("bf16", "bf16", "multiply(p0, p1)"),
    ("f16", "f32", "convert(p0)"),
    ("s32", "s32", "divide(p0, p1)"),
    ("f32", "pred", "compare(p0, p1), direction=LT"),
    ("u8", "u8", "add(p0, p1)"),
]


def choices(text: str) -> tuple[object, ...]:
    return choices_of(KernelRequest(parse_text(text).entry.root, (None,)), host_target())


@pytest.mark.parametrize(("given", "result", "operation"), OPERATIONS)
@pytest.mark.parametrize("size", [1024, 777, 40])
@pytest.mark.parametrize("target", TARGETS)
def test_several_vectors_give_the_same_bits(
    given: str, result: str, operation: str, size: int, target: Target
) -> None:
    parameters = [f"{given}[{size}]"] * (2 if "p1" in operation else 1)
    text = module_text(parameters, f"{result}[{size}] {operation}")
    root, arrays = parse_text(text).entry.root, random_arrays(text)
    assert set(choices(text)) == set(LOOP_SCHEDULES)
    (wanted,) = run_instruction(root, arrays, target=target)
    for choice in LOOP_SCHEDULES:
        (found,) = run_instruction(root, arrays, target=target, choice=choice)
        assert found.tobytes() == wanted.tobytes(), str(choice)


FUNCTIONS = names_of(lambda row: row.transcendental)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_every_function_has_the_same_bits_in_two_vectors(name: str, dtype: str) -> None:
    """With the special values of floats in several lanes, and a size that vectors do not fill."""
    size = 4099
    operands = ["p0", "p1"][: OPCODES[name].arity]
    operation = f"{name}({', '.join(operands)})"
    text = module_text([f"{dtype}[{size}]"] * len(operands), f"{dtype}[{size}] {operation}")
    root, arrays = parse_text(text).entry.root, random_arrays(text)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, 88.8, -103.9, 1e4, 3e38]
    for number, array in enumerate(arrays):
        for place in range(0, size - len(special), 97 + 4 * number):
            array[place : place + len(special)] = special
    assert choices(text)[0] == LoopSchedule(2)
    (wanted,) = run_instruction(root, arrays, choice=LoopSchedule(1))
    (found,) = run_instruction(root, arrays)
    assert found.tobytes() == wanted.tobytes()


def test_results_in_place_have_the_same_bits() -> None:
    text = module_text(["f32[1000]", "f32[1000]"], "f32[1000] atan2(p0, p1)")
    root, arrays = parse_text(text).entry.root, random_arrays(text)
    (wanted,) = run_instruction(root, arrays, aliased=(0,))
    for choice in LOOP_SCHEDULES:
        (found,) = run_instruction(root, arrays, aliased=(0,), choice=choice)
        assert found.tobytes() == wanted.tobytes(), str(choice)


def test_a_result_in_place_takes_as_many_vectors_as_end_with_it() -> None:
    """In place the last vector cannot compute elements again; 4,104 are 513 vectors of eight."""
    text = module_text(["f32[4104]"], "f32[4104] log(p0)")
    root = parse_text(text).entry.root
    assert choices(text)[0] == LoopSchedule(2)
    if not has_masks(host_target()):
        kernel = emit(root, (0,), choice=LoopSchedule(2))
        assert kernel.level == FINAL_WITH_SLOTS
        assert kernel.text == emit(root, (0,), choice=LoopSchedule(1)).text
    assert emit(root, choice=LoopSchedule(2)).text != emit(root, choice=LoopSchedule(1)).text


IN_PLACE = [*sorted((name, "f32") for name in FUNCTIONS), ("divide", "f64"), ("multiply", "bf16")]


@pytest.mark.parametrize(("name", "dtype"), IN_PLACE)
def test_what_vectors_in_place_leave_over_has_the_same_bits(name: str, dtype: str) -> None:
    """Elements after the last whole vector are computed one by one."""
    operands = ["p0", "p1"][: OPCODES[name].arity]
    text = module_text(
        [f"{dtype}[77]"] * len(operands), f"{dtype}[77] {name}({', '.join(operands)})"
    )
    root, arrays = parse_text(text).entry.root, random_arrays(text)
    arrays[0][-8:] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 88.8, -103.9]
    assert emit(root, (0,)).level == FINAL_WITH_SLOTS
    (wanted,) = run_instruction(root, arrays)
    (found,) = run_instruction(root, arrays, aliased=(0,))
    assert found.tobytes() == wanted.tobytes()


def test_parts_in_place_end_with_elements_one_by_one() -> None:
    text = module_text(["f32[67]"], "f32[67] exponential(p0)")
    root, arrays = parse_text(text).entry.root, random_arrays(text)
    (wanted,) = run_instruction(root, arrays)
    compiled = Compiled(emit(root, (0,)))
    memory = arrays[0].copy()
    for begin, end in ((0, 32), (32, 64), (64, 67)):
        compiled.run([memory, memory], begin, end)
    assert memory.tobytes() == wanted.tobytes()


def test_parts_of_threads_give_the_same_bits() -> None:
    text = module_text(["f32[65536]"], "f32[65536] tanh(p0)")
    root, arrays = parse_text(text).entry.root, random_arrays(text)
    (wanted,) = run_instruction(root, arrays)
    for choice in LOOP_SCHEDULES:
        (found,) = run_instruction(root, arrays, pieces=4, choice=choice)
        assert found.tobytes() == wanted.tobytes(), str(choice)


@pytest.mark.parametrize(
    ("operation", "elements", "vectors"),
    [("exponential(p0)", 4096, 2), ("exponential(p0)", 4095, 1), ("negate(p0)", 1 << 20, 1)],
)
def test_elementary_functions_of_many_elements_take_two_vectors(
    operation: str, elements: int, vectors: int
) -> None:
    text = module_text([f"f32[{elements}]"], f"f32[{elements}] {operation}")
    root = parse_text(text).entry.root
    assert choices(text)[0] == LoopSchedule(vectors)
    assert emit(root).text == emit(root, choice=LoopSchedule(vectors)).text


def test_the_code_differs() -> None:
    text = module_text(["f32[4096]"], "f32[4096] exponential(p0)")
    root = parse_text(text).entry.root
    texts = {emit(root, choice=choice).text for choice in LOOP_SCHEDULES}
    assert len(texts) == len(LOOP_SCHEDULES)


def test_parts_do_not_begin_within_the_vectors_of_an_iteration() -> None:
    """A kernel whose parts are a few elements keeps the vectors that fit them."""
    steps = "".join(f"  t{i} = f32[4096] tanh(t{i - 1})\n" for i in range(1, 600))
    body = f"body {{\n  t0 = f32[4096] parameter(0)\n{steps}  ROOT r = f32[4096] tanh(t599)\n}}"
    text = module_text(["f32[4096]"], "f32[4096] fusion(p0), kind=kLoop, calls=body", body)
    request = KernelRequest(parse_text(text).entry.root, (None,))
    lanes = host_target().vector_bits // 32
    for choice in LOOP_SCHEDULES:
        kernel = emit_kernel(request, "kernel", host_target(), choice=choice)
        assert kernel.split is not None
        part, width = kernel.split.grain, lanes * choice.vectors
        expected = lanes if part % width else width
        assert f"<{expected} x float>" in kernel.text
    assert part % width


def test_a_transposition_has_one_choice() -> None:
    text = module_text(["f32[64,100]"], "f32[100,64] transpose(p0), dimensions={1,0}")
    assert choices(text) == (None,)


def test_a_schedule_says_what_it_does() -> None:
    assert list(map(str, map(LoopSchedule, (1, 4)))) == [
        "1 vector per iteration",
        "4 vectors per iteration",
    ]
