"""Plug-ins register passes and rules; the example of the documentation works as printed."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import hloc
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.opt.pass_base import PassContext
from hloc.opt.pattern import P
from hloc.opt.pipeline import Pipeline
from hloc.opt.plugin import load_plugin
from hloc.opt.registry import (
    PASSES,
    all_rules,
    forget_registered,
    pass_class,
    register_pass,
    register_rules,
)
from hloc.opt.rule import Rule

PAGE = Path(__file__).resolve().parents[3] / "docs" / "writing-a-pass.md"
MODULE = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  n = f32[4] negate(y)
  c = f32[4] cosine(n)
  ROOT r = f32[4] subtract(x, c)
}
"""


def plugin(folder: Path, text: str) -> str:
    path = folder / "laws.py"
    path.write_text(text)
    return str(path)


def test_the_example_of_the_documentation_works(tmp_path: Path) -> None:
    (example,) = re.findall(r'```python\n(""".*?)```', PAGE.read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    load_plugin(plugin(tmp_path, example))
    module, context = hloc.parse(MODULE), PassContext()
    Pipeline.parse("algebraic-simplifier").run(module, context)
    assert context.fired["algebraic-simplifier/cosine-negate"] == 1
    assert str(module.entry.root.operands[1]).endswith("cosine(y)")


PLANTED = """
from dataclasses import dataclass
from typing import ClassVar
from hloc.opt.registry import register_pass

@register_pass
@dataclass(frozen=True)
class Planted:
    name: ClassVar[str] = "planted"
    times: int = 1

    def run(self, module, context):
        return False
"""


def test_a_pass_has_options_and_may_be_loaded_again(tmp_path: Path) -> None:
    load_plugin(plugin(tmp_path, PLANTED))
    first = pass_class("planted")
    assert str(Pipeline.parse("planted{times=3},dce")) == "planted{times=3},dce"
    load_plugin(plugin(tmp_path, PLANTED))
    assert pass_class("planted") is not first
    assert "planted" in PASSES
    forget_registered()
    with pytest.raises(HloError, match="there is no pass 'planted'"):
        Pipeline.parse("planted")


FAULTS = {
    "syntax": ("def f(:\n", r"laws\.py:1: SyntaxError"),
    "exception": ("x = 1\ny = 1 / 0\n", r"laws\.py:2: ZeroDivisionError: division by zero"),
    "taken": (PLANTED.replace('"planted"', '"dce"'), "laws.py: there is a pass 'dce' already"),
    "name": (PLANTED.replace('"planted"', '"My Pass"'), "the name of a pass is kebab-case"),
    "option": (PLANTED.replace("int = 1", "float = 1.0"), "is not a bool, int or str"),
    "default": (PLANTED.replace("int = 1", "int"), "option times of pass 'planted' has no default"),
    "no run": (PLANTED.replace("def run", "def walk"), r"has no method run\(module, context\)"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_plugin_that_is_wrong_is_told_with_its_line(case: str, tmp_path: Path) -> None:
    text, message = FAULTS[case]
    with pytest.raises(HloError, match=message):
        load_plugin(plugin(tmp_path, text))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HloError, match="no such file"):
        load_plugin(str(tmp_path / "none.py"))
    with pytest.raises(HloError, match="is a directory"):
        load_plugin(str(tmp_path))


def test_rules_of_hloc_cannot_be_replaced() -> None:
    known = all_rules()[0].name
    with pytest.raises(HloError, match=f"there is a rule '{known}' already"):
        register_rules(Rule(known, P("add"), lambda c, inst, m: None))


def test_a_class_defined_anywhere_can_be_registered() -> None:
    @register_pass
    @dataclass(frozen=True)
    class Local:
        name: ClassVar[str] = "local"

        def run(self, module: Module, context: PassContext) -> bool:
            return False

    assert pass_class("local") is Local
