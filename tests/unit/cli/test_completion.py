"""Scripts of `hloc completion`, as the shells read them; a missing shell is skipped."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.cli.commands import COMMANDS
from hloc.cli.options import OPTIONS

Capture = pytest.CaptureFixture[str]

COMPLETED = {
    "hloc pa": {"parse", "partition", "passes"},
    "hloc help bis": {"bisect"},
    "hloc completion ": {"bash", "zsh", "fish"},
    "hloc passes cs": {"cse"},
    "hloc ops tan": {"tan", "tanh"},
    "hloc rules negate-n": {"negate-negate"},
    "hloc explain exit-c": {"exit-codes"},
    "hloc targets nvp": {"nvptx64"},
    "hloc run a.hlo --pas": {"--passes="},
    "hloc run a.hlo --passes=cs": {"cse"},
    "hloc a.hlo --passes=dce,cs": {"dce,cse"},
    "hloc a.hlo --disable-rule=negate-n": {"negate-negate"},
    "hloc a.hlo --remarks=passed,mis": {"passed,missed"},
    "hloc diff a.hlo b.hlo --format=": {"text", "json"},
    "hloc learn l": {"list"},
    "hloc learn check 3 --format=j": {"json", "junit"},
    "hloc stats --by=d": {"dtype"},
    "hloc run a.hlo --inputs=w": {"weights.npz"},
    "hloc verify no": {"notes of mine.hlo"},
    "hloc diff --trim": set(),  # an option of another command
}
"""A line with the cursor at its end -> what may stand there instead of its last word."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("weights.npz", "notes of mine.hlo"):
        (tmp_path / name).touch()
    return tmp_path


def _script(shell: str, capsys: Capture, folder: Path) -> str:
    assert main(["completion", shell]) == 0
    path = folder / f"script.{shell}"
    path.write_text(capsys.readouterr().out)
    return str(path)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_bash_completes_commands_options_and_names(folder: Path, capsys: Capture) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = _script("bash", capsys, folder)
    asked = "\n".join(
        f"COMP_LINE='{line}' COMP_POINT={len(line)}; _hloc; echo \"{line}\"; "
        'printf "> %s\\n" "${COMPREPLY[@]}"'
        for line in COMPLETED
    )
    found: dict[str, set[str]] = {}
    last = ""
    for line in _run("bash", "--norc", "-c", f"source {script}\n{asked}").splitlines():
        if line.startswith("> "):
            found[last].add(line.removeprefix("> "))
        else:
            last = line
            found[last] = set()
    assert {line: words - {""} for line, words in found.items()} == COMPLETED


def test_fish_completes_commands_options_and_names(folder: Path, capsys: Capture) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    script = _script("fish", capsys, folder)
    for line, expected in COMPLETED.items():
        words = _run(fish, "--no-config", "-c", f"source {script}; complete -C '{line}'")
        ends = {word.split("\t")[0].partition("=")[2] or word.split("\t")[0] for word in
                words.splitlines()}  # fmt: skip
        assert {word.rstrip("=") for word in expected} <= ends, line


def test_zsh_reads_its_script(folder: Path, capsys: Capture) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    script = _script("zsh", capsys, folder)
    _run(zsh, "-n", script)
    _run(zsh, "-fc", f"autoload -Uz compinit; compinit -D; source {script}; whence -w _hloc")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_every_script(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    missing = [name for name in COMMANDS if name not in script]
    for option in OPTIONS:
        for flag in option.flags:
            name = flag if shell != "fish" else f" {flag.lstrip('-')} "
            missing += [flag] * (name not in script)
    assert not missing


def test_a_shell_that_is_not_known_is_named(capsys: Capture) -> None:
    assert main(["completion", "bsh"]) == 2
    assert "expected bash, zsh, fish, found 'bsh'; did you mean bash?" in capsys.readouterr().err
    assert main(["completion"]) == 2
