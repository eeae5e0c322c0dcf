"""`hloc verify --prove`: equal modules are proven, others come with inputs that show it.

Protects translation validation: no wrong pair is proven, no counterexample is unconfirmed, and what
cannot be decided is called unknown, with the reason.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.errors import HloError
from hloc.prove import solver
from hloc.prove.equivalence import Equivalence, compare_modules

ADD = "add { a = s8[] parameter(0) b = s8[] parameter(1) ROOT r = s8[] add(a, b) }"
XY = "x = s8[3] parameter(0)\n  y = s8[3] parameter(1)"

EQUAL = {
    "a product of sums, written out": (
        f"{XY}\n  a = s8[3] add(x, y)\n  ROOT r = s8[3] multiply(a, x)",
        f"{XY}\n  a = s8[3] multiply(x, x)\n  b = s8[3] multiply(y, x)\n  ROOT r = s8[3] add(b, a)",
    ),
    "a clamp as two bounds": (
        f"{XY}\n  z = s8[3] subtract(x, y)\n  ROOT r = s8[3] clamp(x, z, y)",
        f"{XY}\n  z = s8[3] subtract(x, y)\n  m = s8[3] maximum(z, x)\n"
        "  ROOT r = s8[3] minimum(m, y)",
    ),
    "abs without a branch": (
        f"{XY}\n  a = s8[3] abs(x)\n  ROOT r = s8[3] add(a, y)",
        f"{XY}\n  c = s8[] constant(7)\n  b = s8[3] broadcast(c), dimensions={{}}\n"
        "  s = s8[3] shift-right-arithmetic(x, b)\n  f = s8[3] xor(x, s)\n"
        "  a = s8[3] subtract(f, s)\n  ROOT r = s8[3] add(a, y)",
    ),
    "a dot as multiply and reduce": (
        f"{XY}\n  ROOT d = s8[] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        f"{XY}\n  m = s8[3] multiply(x, y)\n  z = s8[] constant(0)\n"
        "  ROOT r = s8[] reduce(m, z), dimensions={0}, to_apply=add",
    ),
    "a slice of a reverse": (
        f"{XY}\n  v = s8[3] reverse(x), dimensions={{0}}\n"
        "  ROOT s = s8[2] slice(v), slice={[0:2]}",
        f"{XY}\n  s = s8[2] slice(x), slice={{[1:3]}}\n"
        "  ROOT v = s8[2] reverse(s), dimensions={0}",
    ),
}

DIFFERENT = {
    "a quotient of negatives": (  # MIN / -1 wraps
        f"{XY}\n  ROOT q = s8[3] divide(x, y)",
        f"{XY}\n  a = s8[3] negate(x)\n  b = s8[3] negate(y)\n  ROOT q = s8[3] divide(a, b)",
    ),
    "a shift as a product": (  # amounts of the width and more
        f"{XY}\n  ROOT s = s8[3] shift-left(x, y)",
        f"{XY}\n  o = s8[] constant(1)\n  b = s8[3] broadcast(o), dimensions={{}}\n"
        "  p = s8[3] shift-left(b, y)\n  n = s8[3] negate(p)\n  ROOT m = s8[3] multiply(x, n)",
    ),
    "a remainder as a mask": (  # of negative numbers
        f"{XY}\n  c = s8[] constant(4)\n  b = s8[3] broadcast(c), dimensions={{}}\n"
        "  ROOT r = s8[3] remainder(x, b)",
        f"{XY}\n  c = s8[] constant(3)\n  b = s8[3] broadcast(c), dimensions={{}}\n"
        "  ROOT r = s8[3] and(x, b)",
    ),
    "two elements that changed places": (
        f"{XY}\n  ROOT c = s8[6] concatenate(x, y), dimensions={{0}}",
        f"{XY}\n  ROOT c = s8[6] concatenate(y, x), dimensions={{0}}",
    ),
}


def module_of(body: str) -> Any:
    return hloc.parse(f"HloModule m\n{ADD}\nENTRY e {{\n  {body}\n}}\n")


def compared(bodies: tuple[str, str]) -> Equivalence:
    pytest.importorskip("z3")
    return compare_modules(*map(module_of, bodies))


@pytest.mark.parametrize("name", EQUAL)
def test_equal_modules_are_proven(name: str) -> None:
    assert compared(EQUAL[name]).verdict == "equal"


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_is_shown_by_the_evaluator(name: str) -> None:
    found = compared(DIFFERENT[name])
    assert found.verdict == "different"
    for body, outputs in zip(DIFFERENT[name], found.outputs, strict=True):
        again = hloc.evaluate(module_of(body), *found.inputs)
        assert all((a == b).all() for a, b in zip(again, outputs, strict=True))
    left, right = found.outputs
    assert any((a != b).any() for a, b in zip(left, right, strict=True))


def test_opcodes_without_a_meaning_are_named() -> None:
    sort = (
        "x = f32[3] parameter(0)\n  s = f32[3] sine(x)\n  "
        'ROOT r = (f32[3], u64[2]) custom-call(s), custom_call_target="f"'
    )
    found = compared((sort, sort))
    assert (found.verdict, found.reason) == ("unknown", "no proofs of custom-call")
    sine = "x = f32[] parameter(0)\n  ROOT r = f32[] sine(x)"
    other = (
        "x = f32[] parameter(0)\n  n = f32[] negate(x)\n  s = f32[] sine(n)\n"
        "  ROOT r = f32[] negate(s)"
    )
    assert compared((sine, sine)).verdict == "equal"  # the same instructions, whatever they mean
    assert "sine of f32" in compared((sine, other)).reason


def test_a_question_that_takes_too_long_is_unknown() -> None:
    pytest.importorskip("z3")
    x = "x = u64[] parameter(0)\n  y = u64[] parameter(1)\n  z = u64[] parameter(2)"
    first = f"{x}\n  a = u64[] divide(x, y)\n  ROOT r = u64[] divide(a, z)"
    second = f"{x}\n  a = u64[] divide(x, z)\n  ROOT r = u64[] divide(a, y)"
    found = compare_modules(module_of(first), module_of(second), seconds=0.2)
    assert found.verdict == "unknown"
    assert "within 0.2 s" in found.reason or "no answer" in found.reason


def test_modules_of_other_signatures_are_refused() -> None:
    one = module_of("ROOT x = s8[3] parameter(0)")
    with pytest.raises(HloError, match="the first module has 1 parameters, but the second has 2"):
        compare_modules(one, module_of(f"{XY}\n  ROOT r = s8[3] add(x, y)"))
    with pytest.raises(HloError, match=r"parameter 0 of the first module has shape s8\[3\], but"):
        compare_modules(one, module_of("ROOT x = s8[4] parameter(0)"))


def test_without_z3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "z3", None)
    solver.z3_module.cache_clear()
    module = module_of("ROOT x = s8[3] parameter(0)")
    with pytest.raises(HloError) as fault:
        compare_modules(module, module)
    solver.z3_module.cache_clear()
    assert "proofs need Z3, which is not installed" in str(fault.value)
    assert "pip install 'hloc[dev]'" in str(fault.value)


def test_the_command_prints_inputs_and_both_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("z3")
    names = [str(tmp_path / name) for name in ("a.hlo", "b.hlo")]
    for name, body in zip(names, DIFFERENT["a quotient of negatives"], strict=True):
        Path(name).write_text(f"HloModule m\nENTRY e {{\n  {body}\n}}\n")
    assert main(["verify", "--prove", *names]) == 1
    out = capsys.readouterr().out
    assert f"{names[0]} and {names[1]}: different, for example for\n  x = s8[3] {{" in out
    assert out.count(" gives\n  s8[3] {") == 2
    assert main(["verify", "--prove", names[0], names[0]]) == 0
    assert "equal for all inputs (3 elements of results)" in capsys.readouterr().out
    assert main(["verify", "--prove", *names, "--format=json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], len(data["inputs"]), len(data["outputs"])) == ("different", 2, 2)
    assert main(["verify", "--prove", names[0]]) == 2
    (tmp_path / "other.hlo").write_text(Path(names[0]).read_text().replace("s8", "s16"))
    capsys.readouterr()
    assert main(["verify", "--prove", names[0], str(tmp_path / "other.hlo")]) == 2
    assert "of the first module has shape" in capsys.readouterr().err


def test_predicates_and_tuples_are_compared_too() -> None:
    p = "p = pred[2] parameter(0)\n  q = pred[2] parameter(1)"
    first = (
        f"{p}\n  a = pred[2] and(p, q)\n  n = pred[2] not(a)\n"
        "  ROOT t = (pred[2], pred[2]) tuple(n, p)"
    )
    second = (
        f"{p}\n  m = pred[2] not(p)\n  n = pred[2] not(q)\n  a = pred[2] or(m, n)\n"
        "  ROOT t = (pred[2], pred[2]) tuple(a, p)"
    )
    assert compared((first, second)).verdict == "equal"
    found = compared((first, second.replace("tuple(a, p)", "tuple(a, q)")))
    assert found.verdict == "different"
    assert all(isinstance(array, np.ndarray) for array in found.inputs)
