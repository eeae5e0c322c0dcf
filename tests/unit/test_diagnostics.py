"""Every code that hloc can print is explained, and every explanation's example really has it."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import hloc
from docs.generators.diagnostics import page
from hloc.diagnostics import _ROWS, EXPLANATIONS, GROUPS
from hloc.ir.attributes import NO_COMMON
from hloc.ir.computation import Computation
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.verifier import check
from hloc.parser import parse
from hloc.shapes import array_shape
from hloc.source import SourceFile
from hloc.stablehlo.to_module import module_from_stablehlo

ROOT = Path(__file__).resolve().parents[2]
F32 = array_shape("f32", 2)
TEXT = """HloModule m
f { p = f32[2] parameter(0) ROOT q = f32[2] negate(p) }
ENTRY main {
  a = f32[2] parameter(0)
  b = f32[2] negate(a)
  ROOT c = f32[2] call(b), to_apply=f
}
"""


def codes_in_the_source() -> set[str]:
    files = [p for p in (ROOT / "hloc").rglob("*.py") if p.name != "diagnostics.py"]
    return {code for p in files for code in re.findall(r"HLOC\d{4}", p.read_text())}


def test_every_code_is_explained_and_every_explained_code_is_used() -> None:
    assert codes_in_the_source() == set(EXPLANATIONS)


@pytest.mark.parametrize("code", [code for code, row in EXPLANATIONS.items() if row.example])
def test_an_example_has_the_fault_and_no_other(code: str) -> None:
    example = SourceFile(EXPLANATIONS[code].example)
    read = module_from_stablehlo if code.startswith("HLOC04") else parse
    with pytest.raises(hloc.HloError) as caught:
        read(example)
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {code}


def _call_another_module(module: Module) -> None:
    other = hloc.parse(TEXT).computations[0]
    module.entry.set_called(module.entry.root, [other])


def _recursion(module: Module) -> None:
    body, p = module.computations[0], module.computations[0].parameters[0]
    body.add(opcode_row("call"), F32, [p], called=[body])


def _forgotten_caller(module: Module) -> None:
    module.computations[0].callers.clear()


def _no_root(module: Module) -> None:
    empty = Computation(module.new_uid(), "empty", module)
    module.adopt_computation(empty)
    empty.add(opcode_row("parameter"), F32, attributes=module.entry.parameters[0].attributes)


def _foreign_operand(module: Module) -> None:
    module.entry.set_operands(module.entry.root, [module.computations[0].root])


def _forgotten_user(module: Module) -> None:
    module.entry.instructions[0].users = ()


def _cycle(module: Module) -> None:
    _, b, c = module.entry.instructions
    module.entry.set_operands(b, [c])


def _parameter_gap(module: Module) -> None:
    row = opcode_row("parameter")
    assert row.attributes is not None
    module.entry.add(row, F32, attributes=row.attributes(number=5), common=NO_COMMON)


def _operand_too_many(module: Module) -> None:
    a, b, _ = module.entry.instructions
    module.entry.set_operands(b, [a, a])


def _wrong_schedule(module: Module) -> None:
    module.set_config(replace(module.config, is_scheduled=True))
    module.entry.reorder(module.entry.instructions[::-1])


BROKEN: dict[str, Callable[[Module], None]] = {
    "HLOC0302": _call_another_module,
    "HLOC0303": _recursion,
    "HLOC0304": _forgotten_caller,
    "HLOC0305": _no_root,
    "HLOC0306": _foreign_operand,
    "HLOC0307": _forgotten_user,
    "HLOC0308": _cycle,
    "HLOC0309": _parameter_gap,
    "HLOC0310": _operand_too_many,
    "HLOC0315": _wrong_schedule,
}


def test_what_no_text_can_do_is_done_by_hand_here() -> None:
    assert set(BROKEN) == {code for code, row in EXPLANATIONS.items() if not row.example}


@pytest.mark.parametrize("code", BROKEN)
def test_a_module_broken_by_a_program_is_found_out(code: str) -> None:
    module = hloc.parse(TEXT)
    BROKEN[code](module)
    assert code in {diagnostic.code for diagnostic in check(module)}


def test_every_code_has_one_row_and_every_row_a_title_of_its_own() -> None:
    assert len(_ROWS) == len({row.code for row in _ROWS}) == len({row.title for row in _ROWS})


def test_rows_are_complete_sentences_in_order() -> None:
    assert list(EXPLANATIONS) == sorted(EXPLANATIONS)
    for code, row in EXPLANATIONS.items():
        assert any(code.startswith(prefix) for prefix, _ in GROUPS)
        assert row.text.endswith(".")
        assert row.remedy.endswith(".")
        assert not row.title.endswith(".")


def test_the_page_of_the_documentation_is_up_to_date(update_golden: bool) -> None:
    path = ROOT / "docs" / "diagnostics.md"
    if update_golden:
        path.write_text(page())
    assert path.read_text() == page()
