"""`hloc isolate` names the instruction that computes something else, and nothing that does not."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloc import driver
from hloc.cli import main
from hloc.cli.isolation.pieces import opened, pieces_of, takes_arrays
from hloc.cli.isolation.search import Search
from hloc.cli.isolation.sides import Compiled, Program, Task
from hloc.cli.isolation.values import Values
from hloc.ir.module import Module
from hloc.report.compare import Bounds
from hloc.report.inputs import random_inputs
from hloc.report.progress import Progress

ROOT = Path(__file__).parents[3]

STEPS = """HloModule steps

FileNames
1 "train.py"
FunctionNames
1 "loss"
FileLocations
1 {file_name_id=1 function_name_id=1 line=31 end_line=31 column=3 end_column=9}
StackFrames
1 {file_location_id=1 parent_frame_id=1}

fused {
  p = f32[8] parameter(0)
  two = f32[] constant(2)
  twos = f32[8] broadcast(two), dimensions={}
  ROOT doubled = f32[8] multiply(p, twos)
}
below {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
step {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v = f32[8] get-tuple-element(s), index=1
  root = f32[8] tanh(v)
  ROOT r = (s32[], f32[8]) tuple(next, root)
}
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  difference = f32[8] subtract(x, y), metadata={op_name="loss/sub" stack_frame_id=1}
  sum = f32[8] add(difference, y)
  f = f32[8] fusion(sum), kind=kLoop, calls=fused
  zero = s32[] constant(0)
  start = (s32[], f32[8]) tuple(zero, f)
  loop = (s32[], f32[8]) while(start), condition=below, body=step
  last = f32[8] get-tuple-element(loop), index=1
  ROOT done = f32[8] log(last)
}
"""


class Faulty(Compiled):
    """Machine code of hloc that is wrong for modules with all of some opcodes."""

    def __init__(self, *opcodes: str) -> None:
        super().__init__(2)
        self.opcodes = set(opcodes)

    def run_all(self, tasks: Sequence[Task]) -> list[Any]:
        return [list(self.compiled(piece.module)(arrays)) for piece, arrays in tasks]

    def compiled(self, module: Module) -> Program:
        right = super().compiled(module)
        if not self.opcodes <= {inst.opcode.name for inst in module.entry.instructions}:
            return right

        def wrong(arrays: Sequence[Any]) -> Sequence[Any]:
            return [np.nextafter(a, np.float32(9)) * 1.001 if a.dtype.kind == "f" else a
                    for a in right(arrays)]  # fmt: skip

        return wrong


def search(text: str, *opcodes: str, **options: Any) -> Search:
    """Isolate a module on a side that is wrong for some opcodes."""
    module = driver.parse_text(text)
    found = Search(module, [Faulty(*opcodes)], Bounds(), **options)
    found.run(random_inputs(module, 0), Progress())
    return found


@pytest.mark.parametrize("opcode", ["subtract", "tanh", "multiply"])
def test_a_wrong_instruction_is_named(opcode: str) -> None:
    """Also one inside a loop; what reads it has the right inputs and is not blamed."""
    found = search(STEPS.replace("fusion(sum), kind=kLoop, calls=fused", "multiply(sum, sum)"),
                   opcode).found  # fmt: skip
    named = {row.piece.inst.name for row in found.diverging if row.piece.height == 0}
    expected = {"subtract": {"difference"}, "tanh": {"root", "loop"}, "multiply": {"f"}}
    assert named <= expected[opcode]
    assert named


def test_a_fault_of_two_instructions_together_is_found_with_both() -> None:
    found = search(STEPS, "subtract", "add").found
    assert [(row.piece.inst.name, row.piece.height) for row in found.diverging] == [("sum", 1)]
    assert not search(STEPS, "subtract", "add", levels=0).found.diverging


def test_only_what_the_filter_matches_is_compared() -> None:
    found = search(STEPS, "subtract", chosen="loss/").found
    assert (found.compared, len(found.diverging)) == (1, 1)
    assert not search(STEPS, "subtract", chosen="^log$").found.diverging


def test_pieces_that_are_compiled_together_give_what_they_give_alone() -> None:
    module = opened(driver.parse_text(STEPS))
    pieces = [p for inst in module.entry.instructions[2:] for p in pieces_of(inst, 1)]
    tasks = [(p, random_inputs(p.module, 3)) for p in pieces if takes_arrays(p.inst)]
    assert len(tasks) > 8
    together, alone = Compiled(0).run_all(tasks), Compiled(0)
    for task, found in zip(tasks, together, strict=True):
        for one, other in zip(found, alone.run(*task), strict=True):  # type: ignore[arg-type]
            np.testing.assert_array_equal(one, other)


def test_values_that_do_not_fit_are_read_from_files() -> None:
    module = driver.parse_text(STEPS)
    first, second, third = module.entry.instructions[:3]
    with Values(most_bytes=100) as values:
        for number, inst in enumerate((first, second, third)):
            values.put(inst, [np.full(16, number, np.float32), np.zeros((), bool)])
        assert values.spilled == 4
        np.testing.assert_array_equal(values.get(first)[0], np.zeros(16, np.float32))
        assert values.get(second)[1].shape == ()
        values.drop(first)
        assert third in values._held


# ---------------------------------------------------------------- the command


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_two_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The changed instruction is named, with its line and files that reproduce it."""
    before = write(tmp_path, "before.hlo", STEPS)
    after = write(tmp_path, "after.hlo", STEPS.replace("subtract(x, y)", "add(x, y)"))
    folder = tmp_path / "pieces"
    assert main(["isolate", before, f"--against={after}", f"--repro-dir={folder}"]) == 1
    printed = capsys.readouterr().out
    assert "first divergence: %difference, subtract f32[8] at train.py:31 in loss" in printed
    assert "more diverge" not in printed
    (command,) = (line for line in printed.splitlines() if "hloc run" in line)
    assert main(command.split()[1:]) == 0  # hloc's own code is right


def test_the_page_shows_each_piece(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of the module are escaped."""
    before = write(tmp_path, "before.hlo", STEPS.replace("train.py", "<b>.py"))
    after = write(tmp_path, "after.hlo", STEPS.replace("subtract(x, y)", "add(x, y)"))
    page = tmp_path / "page.html"
    assert main(["isolate", before, f"--against={after}", f"--html={page}"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, "1 divergence, in" in printed.err) == ("", True)
    text = page.read_text()
    assert "<code>%difference, subtract f32[8] at &lt;b&gt;.py:31 in loss</code>" in text
    assert "First NaN: <code>%done, log f32[8]</code>" in text
    assert "difference = f32[8]{0} subtract(x, y)" in text
    assert "<b>" not in text


def test_first_nan_and_infinity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "m.hlo", STEPS)
    assert main(["isolate", path, "--input=x=zeros", "--input=y=zeros"]) == 0
    printed = capsys.readouterr().out
    assert "first infinity: %done, log f32[8]" in printed
    assert main(["isolate", path, "--input=x=[0,0,0,0,0,0,0,-2]", "--format=json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["first_nan"]["name"] == "done"
    assert data["diverging"] == []


@pytest.mark.parametrize(
    ("example", "against"),
    [
        ("softmax_relu", "O0"),
        ("lstm_scan", "interp"),
        pytest.param("mlp_train_step", "O0", marks=pytest.mark.slow),
    ],
)
def test_sound_modules_do_not_diverge(
    example: str, against: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["isolate", str(ROOT / f"examples/{example}.hlo"), f"--against={against}"]) == 0
    assert "first divergence: none" in capsys.readouterr().out


def test_bad_use_is_refused_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "m.hlo", STEPS)
    assert main(["isolate", path, "--filter=("]) != 0
    assert "expected a regular expression" in capsys.readouterr().err
    assert main(["isolate", path, f"--against={tmp_path}/none.hlo"]) != 0
    assert "cannot read" in capsys.readouterr().err
    assert main(["isolate", str(ROOT / "examples/partitioned"), path]) != 0
    assert capsys.readouterr().err
