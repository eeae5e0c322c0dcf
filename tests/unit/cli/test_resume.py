"""`--resume-from=DIR/STEP`: every step of a dump leads to the same module."""

import json
from pathlib import Path

import pytest

import hloc
from hloc.cli import main
from hloc.ir.module import Module

EXAMPLES = Path(__file__).parents[3] / "examples"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dump")
    file = str(EXAMPLES / "softmax_relu.hlo")
    words = ["-q", "--fast-math", f"--dump-dir={folder}", "-o", str(folder / "end.txt")]
    assert main([file, *words]) == 0
    return folder


def _resumed(step: Path | str, capsys: Capture) -> Module:
    assert main([f"--resume-from={step}", "-q"]) == 0
    return hloc.parse(capsys.readouterr().out)


def test_every_step_leads_to_the_same_end(dump: Path, capsys: Capture) -> None:
    end = str(dump / "end.txt")
    steps = sorted(dump.glob("*.hlo"))
    assert len(steps) > 5
    for step in steps:
        out = dump / "resumed.txt"
        assert main([f"--resume-from={step}", "-q", "-o", str(out)]) == 0
        assert main(["diff", str(out), end]) == 0, step


def test_a_step_has_three_names_and_keeps_the_options(dump: Path, capsys: Capture) -> None:
    steps = json.loads((dump / "manifest.json").read_text())["steps"]
    file = next(step["file"] for step in steps if "file" in step)
    number = str(int(file.partition("-")[0]))
    names = (file, file.removesuffix(".hlo"), number)
    assert len({_resumed(dump / name, capsys).to_text() for name in names}) == 1
    assert main([f"--resume-from={dump / number}", "--dump-dir", str(dump / "again"), "-q"]) == 0
    kept = json.loads((dump / "again" / "manifest.json").read_text())["options"]
    assert (kept["fast_math"], kept["opt_level"]) == (True, "2")


def test_an_edited_step_is_what_goes_on(dump: Path, tmp_path: Path, capsys: Capture) -> None:
    for path in dump.glob("*.*"):
        (tmp_path / path.name).write_text(path.read_text())
    step = tmp_path / "00-input.hlo"
    text = step.read_text()
    assert " exponential(" in text
    step.write_text(text.replace(" exponential(", " tanh("))
    found = _resumed(step, capsys).to_text()
    assert "tanh(" in found
    assert "exponential(" not in found


WRONG = {
    "no such step": (["--resume-from={}/99"], 1, "the dump has no step '99'\nnote: it has 00-"),
    "no dump": (["--resume-from={}/again/x/3"], 1, "takes a file of a folder that --dump-dir"),
    "a file as well": (["x.hlo", "--resume-from={}/0"], 2, "the dump has both"),
    "a pipeline": (["--passes=dce", "--resume-from={}/0"], 2, "the dump has both"),
}


@pytest.mark.parametrize("case", WRONG)
def test_dumps_that_cannot_be_resumed_are_refused(case: str, dump: Path, capsys: Capture) -> None:
    words, code, message = WRONG[case]
    assert main([word.format(dump) for word in words]) == code
    assert message in capsys.readouterr().err


def test_a_manifest_of_another_form_is_reported(tmp_path: Path, capsys: Capture) -> None:
    for text in ('{"version": 1}', "[]", '{"pipeline": "dce", "steps": [{"file": 1}]}', "{"):
        (tmp_path / "manifest.json").write_text(text)
        assert main([f"--resume-from={tmp_path}/0"]) == 1
        assert "manifest.json" in capsys.readouterr().err


def test_what_is_left_is_folded_and_can_be_given_to_passes(
    dump: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([f"--resume-from={dump / '0'}", "-o", str(dump / "all.txt")]) == 0
    said = capsys.readouterr().err
    lines = said[: said.index("\n" + str(dump))].splitlines()
    assert len(lines) > 5
    assert all(len(line) <= 100 and line.endswith(",") for line in lines[:-1])
    assert all(len(line) > 50 for line in lines[:-1])
    passes = " ".join(line.strip() for line in lines).partition("the input: ")[2]
    words = ["--fast-math", f"--passes={passes}", "-q", "-o", str(dump / "named.txt")]
    assert main([str(dump / "00-input.hlo"), *words]) == 0
    assert (dump / "named.txt").read_text() == (dump / "all.txt").read_text()
