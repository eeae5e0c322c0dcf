"""The student's way to write rules and passes: `from hloc.opt import rule, Pass, ops as o, ...`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hloc
from hloc.cli import main
from hloc.errors import HloError, InternalError
from hloc.ir.module import Module
from hloc.opt import FLOAT, INT, ModulePass, Pass, any_, const, rule
from hloc.opt import ops as o
from hloc.opt.authoring import AuthoredRule, Found, RuleBuilder, Value, fuse
from hloc.opt.pass_base import PassContext
from hloc.opt.pattern import P
from hloc.opt.pipeline import Pipeline
from hloc.opt.plugin import load_plugin
from hloc.opt.registry import pass_class
from tests.waiting import PATIENCE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "writing-a-pass.md"

MYPASS = '''"""My first laws."""
from hloc.opt import rule, Pass, ops as o, any_, const, INT

@rule(o.multiply(any_("x"), const(0, name="zero")), dtypes=INT)
def mul_zero(m):
    """x*0 = 0 (integers only: NaN*0 and inf*0 are NaN)."""
    return m.zero

@rule(o.transpose(o.transpose(any_("x"), name="inner"), name="outer"))
def transpose_pair(m, b):
    """Two transposes are one, or none."""
    perm = [m.inner.dimensions[d] for d in m.outer.dimensions]
    return m.x if perm == list(range(len(perm))) else b.transpose(m.x, dimensions=perm)

simplify = Pass("my-simplify", rules=[mul_zero, transpose_pair])
'''

MODULE = """HloModule f
ENTRY e {
  x = s32[2,3,4] parameter(0)
  z = s32[] constant(0)
  zb = s32[2,3,4] broadcast(z), dimensions={}
  mz = s32[2,3,4] multiply(zb, x)
  t1 = s32[4,2,3] transpose(x), dimensions={2,0,1}
  t2 = s32[3,4,2] transpose(t1), dimensions={2,0,1}
  t3 = s32[2,3,4] transpose(t2), dimensions={2,0,1}
  ROOT r = s32[2,3,4] add(mz, t3)
}
"""


def files(folder: Path, plugin: str = MYPASS, module: str = MODULE) -> tuple[str, str]:
    (folder / "mypass.py").write_text(plugin)
    (folder / "f.hlo").write_text(module)
    return str(folder / "f.hlo"), str(folder / "mypass.py")


def run(made: Pass, text: str, *, fast_math: bool = False) -> tuple[Module, PassContext]:
    module, context = hloc.parse(text), PassContext(fast_math=fast_math)
    made.as_class()().run(module, context)
    return module, context


def unary(opcode: str, dtype: str = "f32") -> str:
    return (
        f"HloModule m\nENTRY e {{ x = {dtype}[4] parameter(0)  ROOT r = {dtype}[4] {opcode}(x) }}"
    )


def binary(opcode: str, value: str, dtype: str = "f32") -> str:
    return (
        f"HloModule m\nENTRY e {{\n x = {dtype}[4] parameter(0)\n c = {dtype}[] constant({value})\n"
        f" cs = {dtype}[4] broadcast(c), dimensions={{}}\n"
        f" ROOT r = {dtype}[4] {opcode}(x, cs)\n}}"
    )


def test_fifteen_lines_work_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len([line for line in MYPASS.splitlines() if line.strip()]) <= 15
    module, plugin = files(tmp_path)
    words = [module, "--plugin", plugin, "--passes=my-simplify,cse", "--check-each"]
    assert main([*words, "--trace-rewrites", "--style=short"]) == 0
    found = capsys.readouterr()
    assert "ROOT r = s32[2,3,4]{2,1,0} add(zb, x)" in found.out
    assert "rewrite 1  my-simplify/mul-zero  at mz" in found.err
    assert "my-simplify/transpose-pair  at t3" in found.err
    assert main(["explain", "my-simplify", "--plugin", plugin]) == 0
    assert "mul-zero  (mypass.py:4)\n    x*0 = 0 (integers only" in capsys.readouterr().out
    assert main(["explain", "mul-zero", "--plugin", plugin]) == 0
    assert "rule mul-zero\n  multiply  mypass.py:4\n  x*0 = 0" in capsys.readouterr().out


def test_a_wrong_rule_is_caught_by_check_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MODULE.replace("s32", "f32")
    module, plugin = files(tmp_path, MYPASS.replace(", dtypes=INT", ""), text)
    words = [module, "--plugin", plugin, "--passes=my-simplify", "--repro-dir", str(tmp_path)]
    assert main([*words, "--check-each", "-o", str(tmp_path / "out.hlo")]) == 70
    said = capsys.readouterr().err
    assert "pass my-simplify changes the answer" in said
    assert "a plug-in is loaded and may be at fault" in said


def test_a_pass_that_breaks_the_module_is_caught_by_verify_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = '''"""Breaks it."""
from hloc.dtypes import F32
from hloc.opt import ModulePass
from hloc.shapes import ArrayShape

class Breaker(ModulePass):
    """Gives the root another type."""
    name = "breaker"
    times: int = 1

    def run(self, module, context):
        root = module.entry.root
        with context.rewriting(module, self.name):
            module.entry.set_shape(root, ArrayShape(F32, (self.times,)))
        return True
'''
    module, plugin = files(tmp_path, body)
    words = [module, "--plugin", plugin, "--passes=breaker{times=3}", "--verify-each"]
    assert main([*words, "--repro-dir", str(tmp_path), "-o", str(tmp_path / "out.hlo")]) == 70
    assert "pass breaker{times=3} left an invalid module" in capsys.readouterr().err


def test_importing_hloc_opt_stays_cheap_and_rule_stays_the_decorator() -> None:
    code = (
        "import sys, hloc.opt; assert 'hloc.opt.authoring' not in sys.modules; "
        "import hloc.opt.rule; from hloc.opt import rule; assert callable(rule), rule; "
        "from hloc.opt.rule import Rule; assert Rule.__name__ == 'Rule'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_the_section_of_the_documentation_works(tmp_path: Path) -> None:
    text = PAGE.read_text()
    example = text[text.index("# mypass.py") :].partition("```")[0]
    (tmp_path / "mypass.py").write_text(example)
    load_plugin(str(tmp_path / "mypass.py"))
    module = hloc.parse(MODULE)
    Pipeline.parse("my-simplify").run(module, PassContext())
    assert module.instruction_count == 4


# ---------------------------------------------------------------- patterns


def first(pattern: P, **options: Any) -> Pass:
    @rule(pattern, **options)
    def law(m: Found) -> Value:
        """The operand stands for it."""
        return m.root.operands[0]

    return Pass("mine", [law])


@pytest.mark.parametrize(
    ("value", "pattern", "fires"),
    [
        ("0", const(0), True),
        ("-0.0", const(0), True),
        ("0", const(0.0), True),
        ("-0.0", const(0.0), False),
        ("-0.0", const(-0.0), True),
        ("0", const(-0.0), False),
        ("nan", const(float("nan")), True),
        ("2.5", const(), True),
        ("2.5", const(2), False),
    ],
)
def test_constants_match_by_value_and_floats_with_the_sign_of_zero(
    value: str, pattern: P, fires: bool
) -> None:
    _, context = run(first(o.add(any_("x"), pattern)), binary("add", value))
    assert bool(context.rewrites) is fires


def test_both_orders_types_attributes_and_conditions() -> None:
    law = first(o.add(const(1), any_("x")), dtypes=INT)
    # the first operand is x: the written order has been turned round
    assert run(law, binary("add", "1", "s32"))[1].rewrites == 1
    assert run(law, binary("add", "1", "f32"))[1].rewrites == 0
    both = first(o.add(const(1), any_()), dtypes=INT | FLOAT)
    assert run(both, binary("add", "1", "f32"))[1].rewrites == 1
    small = first(o.negate(any_("x", when=lambda x: x.dims == (4,))))
    assert run(small, unary("negate"))[1].rewrites == 1
    assert (
        run(first(o.negate(), when=lambda m: m.root.dims == (5,)), unary("negate"))[1].fired == {}
    )
    text = "HloModule m\nENTRY e { x = f32[2,2] parameter(0) ROOT t = f32[2,2] transpose(x), "
    assert (
        run(first(o.transpose(any_(), dimensions=[1, 0])), text + "dimensions={0,1} }")[1].fired
        == {}
    )
    assert run(first(o.transpose(any_(), dimensions=[1, 0])), text + "dimensions={1,0} }")[
        1
    ].rewrites


def test_inexact_rules_wait_for_fast_math() -> None:
    law = first(o.tanh(any_("x")), exact="approximate")
    assert run(law, unary("tanh"))[1].rewrites == 0
    assert run(law, unary("tanh"), fast_math=True)[1].rewrites == 1


WRITING: dict[str, tuple[Callable[[], object], str]] = {
    "opcode": (lambda: o.multiplyy(), "there is no opcode 'multiplyy'"),
    "attribute": (lambda: o.negate(direction="EQ"), "negate has no attribute 'direction'"),
    "dtype": (lambda: any_("x", dtypes="f33"), "there is no element type 'f33'"),
    "docstring": (lambda: rule(o.negate())(lambda m: None), "has no docstring"),
    "no rule": (lambda: Pass("p", [len]), "pass 'p': 'len' is no rule"),  # type: ignore[list-item]
    "exact": (lambda: rule(o.negate(), exact="maybe")(_documented), "exact is one of True"),  # type: ignore[arg-type]
    "arguments": (lambda: rule(o.negate())(_three), r"takes \(m\) or \(m, b\), not 3 arguments"),
}


def _documented(m: Found) -> None:
    """Declines."""


def _three(a: Found, b: RuleBuilder, c: int) -> None:
    """Takes too much."""


@pytest.mark.parametrize("case", WRITING)
def test_mistakes_are_told_when_the_file_loads(case: str) -> None:
    make, message = WRITING[case]
    with pytest.raises(HloError, match=message):
        make()


# ---------------------------------------------------------------- building


def test_the_builder_infers_shapes_and_takes_any_opcode() -> None:
    @rule(o.tanh(any_("x")))
    def law(m: Found, b: RuleBuilder) -> Value:
        """Not a law, but it uses everything."""
        two = b.splat(2, like=m.x)
        chosen = b.select(b.compare(m.x, two, "LT"), b.cosine(m.x), b.power(m.x, two))
        flat = b.reshape(b.reverse(chosen, dimensions=[0]), (2, 2))
        return b.reshape(b.transpose(flat, dimensions=[1, 0]), m.x.dims)

    module, context = run(Pass("mine", [law]), unary("tanh"))
    assert context.fired == {"mine/law": 1}
    (result,) = hloc.evaluate(module, hloc.evaluate(unary_constant())[0])
    assert result.shape == (4,)


def unary_constant() -> str:
    return "HloModule c\nENTRY e { ROOT c = f32[4] constant({1, 2, 3, 4}) }"


def test_a_new_instruction_takes_the_layout_of_what_it_replaces() -> None:
    @rule(o.negate(o.negate(any_("x"))))
    def law(m: Found, b: RuleBuilder) -> Value:
        """-(-x) = copy(x)."""
        return b.copy(m.x)

    text = (
        "HloModule m\nENTRY e { x = f32[2,3]{1,0} parameter(0)  n = f32[2,3]{0,1} negate(x)  "
        "ROOT r = f32[2,3]{0,1} negate(n) }"
    )
    module, context = run(Pass("mine", [law]), text)
    assert context.rewrites == 1
    assert str(module.entry.root.shape) == "f32[2,3]{0,1}"


def test_an_exception_in_a_rule_names_its_line() -> None:
    @rule(o.negate(any_("x")))
    def law(m: Found) -> Value:
        """Fails."""
        return m.x.nothing  # type: ignore[no-any-return]

    with pytest.raises(
        InternalError, match=r"rule law \(test_authoring.py:\d+\) failed in line"
    ) as e:
        run(Pass("mine", [law]), unary("negate"))
    assert "parameter has no attribute 'nothing'; it has number" in str(e.value)
    assert isinstance(law, AuthoredRule)
    assert law.where.startswith("test_authoring.py:")


# ---------------------------------------------------------------- tools and passes


def test_classes_of_a_file_are_found_and_imported_ones_are_not(tmp_path: Path) -> None:
    body = '''"""Two."""
from hloc.opt import ModulePass

class Base(ModulePass):
    """No name, so no pass."""

class Mine(Base):
    """Does nothing."""
    name = "does-nothing"

    def run(self, module, context):
        return False
'''
    load_plugin(files(tmp_path, body)[1])
    assert pass_class("does-nothing").__name__ == "Mine"
    assert str(Pipeline.parse("does-nothing")) == "does-nothing"
    with pytest.raises(HloError, match="there is no pass 'Base'"):
        pass_class("Base")
    with pytest.raises(HloError, match="has no method run"):
        ModulePass().run(hloc.parse(MODULE), PassContext())


def test_fuse_wants_a_connected_group() -> None:
    module = hloc.parse(MODULE)
    insts = {i.name: i for i in module.entry.instructions}
    with pytest.raises(HloError, match="two members or more"):
        fuse([insts["mz"]])
    with pytest.raises(HloError, match="t1 is not read by another member"):
        fuse([insts["t1"], insts["mz"]])
    fusion = fuse([insts["zb"], insts["mz"]])
    assert [i.name for i in fusion.operands] == ["z", "x"]
    assert insts["mz"] not in module.entry
