"""Changes by hand, and histories that other compilers have written."""

from pathlib import Path

import pytest

import hloc
from hloc.ir.verifier import verify
from repl.session import Session
from tests.repl.conftest import Say

TEXT = """new <<END
HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  n = f32[2,3] negate(x)
  nn = f32[2,3] negate(n)
  ROOT r = f32[2,3] add(nn, x)
}
END
"""


@pytest.fixture(autouse=True)
def loaded(say: Say) -> None:
    say(TEXT)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("edit %nn = f32[2,3] abs(n)", "~ nn = f32[2,3] abs(n)"),
        ("edit %nn f32[2,3] negate(x)", "⇄ nn = f32[2,3] negate(n → x)"),
        ("edit %nn = ROOT %nn = f32[2,3] abs(n)", "~ nn = f32[2,3] abs(n)"),
        ("replace %nn WITH %x", "⇄ ROOT r = f32[2,3] add(nn → x, x)"),
        ("replace %nn with f32[2,3] abs(x)", "~ nn = f32[2,3] abs(x)"),
        ("replace %r WITH %nn", "~ ROOT nn = f32[2,3] negate(n)"),
        ("insert k = f32[2,3] multiply(x, n)", "+ k = f32[2,3] multiply(x, n)"),
        ("rename %nn other", "s1 rename %nn other"),
        ("set-layout %nn {0,1}", "s1 set-layout %nn {0,1}"),
    ],
)
def test_a_change_is_verified_and_a_state(line: str, shown: str, repl: Session, say: Say) -> None:
    before = repl.current.module.to_text()
    assert shown in say(line)
    assert repl.current.label == "s1"
    assert repl.current.module.to_text() != before
    assert repl.states[0].module.to_text() == before
    verify(repl.current.module)
    say("undo")
    assert repl.current.module.to_text() == before


def test_an_edited_instruction_keeps_its_identity(repl: Session, say: Say) -> None:
    uid = repl.find("nn").uid
    say(
        "edit %nn = f32[2,3] abs(n)\napply dce\nrename %nn k\ninsert z = f32[2,3] abs(k)\ndelete %z"
    )
    assert repl.find("k").uid == uid
    assert "opcode negate → abs ← edit" in say("why %k")
    assert "opcode abs s1 edit" in say("blame %k")


WRONG = {
    "edit %nn = f32[2,4] abs(n)": "operand 0 has shape",
    "edit %nn = f32[2,3] absx(n)": "did you mean abs",
    "edit %nn = f32[2,3] abs(m)": "does not exist: m",
    "edit %nn = mm = f32[2,3] abs(n)": "edit keeps the name",
    "edit": "edit what",
    "replace %nn %x": "replace what",
    "replace %nn WITH %nn": "by itself",
    "replace %x WITH %r": "cycle|needs|itself",
    "delete %nn": "nn is used by r",
    "delete %r": "r is the root",
    "rename %nn x": "an instruction named 'x' already exists",
    "rename %nn a,b": "is not a valid instruction name",
    "rename %nn": "rename what",
    "insert f32[2] abs(x)": "insert what",
    "insert k = f32[9] abs(x)": "operand 0 has shape",
    "set-layout %nn {0}": "has rank 2",
    "set-layout %nn {1,0}": "changes nothing",
    "set-layout %nn foo": "expected a layout such as {1,0}",
}


@pytest.mark.parametrize("line", WRONG)
def test_invalid_edits_are_refused(line: str, repl: Session, say: Say) -> None:
    with pytest.raises(hloc.HloError) as fault:
        say(line)
    text = str(fault.value)
    assert any(part in text for part in WRONG[line].split("|")), text
    assert repl.current.label == "s0"


# ---------------------------------------------------------------- XLA's dumps

ADD = "  ROOT r = f32[4] add(x, y)\n"
STEPS = (
    ("0000.simplification.after_pipeline-start.before_algsimp", "  z = f32[] constant(0)\n"
     "  y = f32[4] broadcast(z), dimensions={}\n" + ADD),
    ("0001.simplification.after_algsimp.before_dce", "  z = f32[] constant(0)\n"
     "  y = f32[4] broadcast(z), dimensions={}\n  ROOT c = f32[4] copy(x)\n"),
    ("0002.simplification.after_dce.before_pipeline-end", "  ROOT c = f32[4] copy(x)\n"),
    ("0003.later.after_pipeline-start.before_cse", "  ROOT c = f32[4] copy(x)\n"),
)  # fmt: skip


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    for name, lines in STEPS:
        text = f"HloModule jit_f\n\nENTRY e {{\n  x = f32[4] parameter(0)\n{lines}}}\n"
        (tmp_path / f"module_0007.jit_f.{name}.txt").write_text(text)
    (tmp_path / "module_0003.jit_g.0000.p.after_pipeline-start.before_a.txt").write_text(
        "HloModule jit_g\n\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n"
    )
    (tmp_path / "module_0007.jit_f.cpu_after_optimizations-buffer-assignment.txt").write_text("x")
    return tmp_path


def test_a_dump_of_xla_is_a_history(dump: Path, repl: Session, say: Say) -> None:
    text = say(f"load {dump}")
    assert "jit_f: 4 instructions" in text
    assert [state.how for state in repl.states] == [
        "load", "simplification/algsimp", "simplification/dce",
    ]  # fmt: skip
    say("goto s2")
    assert repl.find("x").uid == repl.states[0].module.entry.parameters[0].uid
    assert "- y = f32[4] broadcast(z)" in say("diff")
    assert "simplification/algsimp" in say("why %c")
    assert "simplification/algsimp" in say("blame %c")
    assert say(f"load {dump} jit_g").startswith("jit_g: 1 instruction")
    with pytest.raises(hloc.HloError, match="the dump has no module 'jit_h'"):
        say(f"load {dump} jit_h")


def test_a_folder_without_a_dump_is_explained(tmp_path: Path, say: Say) -> None:
    with pytest.raises(hloc.HloError, match="is empty"):
        say(f"load {tmp_path}")
    (tmp_path / "notes.txt").write_text("no HLO")
    with pytest.raises(hloc.HloError, match="contains no HLO module"):
        say(f"load {tmp_path}")


def test_a_dump_without_passes_has_what_was_before_and_after(
    tmp_path: Path, repl: Session, say: Say
) -> None:
    text = "HloModule jit_f\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] sine(x)\n}\n"
    start = tmp_path / "module_0001.jit_f"
    Path(f"{start}.before_optimizations.txt").write_text(text)
    Path(f"{start}.cpu_after_optimizations.txt").write_text(text.replace("sine", "cosine"))
    say(f"load {tmp_path}")
    assert [state.how for state in repl.states] == ["load", "cpu_after_optimizations"]
