"""Every command of README and docs has options that exist; what needs no other machine is run."""

import re
import shlex
from glob import glob
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hloc.cli import main
from hloc.cli.arguments import parse_arguments
from hloc.cli.command_words import command_and_words
from hloc.cli.commands import COMMANDS
from repl.app import _arguments as repl_arguments
from tests.unit.manual import ROOT, commands

Capture = pytest.CaptureFixture[str]

SHOWN = commands()
TEXT = """HloModule m

ENTRY e {
  x = f32[8,4] parameter(0)
  A = f32[8,4] negate(x)
  NAME = f32[8,4] tanh(A)
  dot.3 = f32[8,8] dot(NAME, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  OTHER = f32[8,8] sine(dot.3)
  ROOT B = f32[8,8] add(OTHER, dot.3)
}
"""
SHARDED = "hloc/lessons/14-devices/device.hlo"

FRAGMENTS = {
    "hlo-repl -x",
    "hloc -c",
    "hloc run --compare-with",
    "hloc explain",
    "hloc help COMMAND",
}
"""What a sentence names without what follows it."""

NOT_RUN = {
    "^hlo-repl|^hloc repl|learn start|--script": "opens hlo-repl: tests/repl types in transcripts",
    "--target=c |targets c": "a package of its own: tests/test_new_backend.py",
    "--target=nvptx64 --(run|devices)": "needs a GPU",
    "--against": "needs JAX or another file: tests/unit/cli/test_isolate.py",
    "^hloc web": "serves until Ctrl-C: tests/unit/web, tests/web",
    "^hloc nan": "tests/unit/cli/test_nan.py",
    "--compare-with=xla": "needs JAX: tests/unit/learn/test_tutorial.py",
    "margin.hlo": "tests/unit/learn/test_tutorial.py",
    "14-devices|partitioned": "tests/unit/cli/test_devices_manual.py",
    "classifier|shared": "needs a C compiler: tests/unit/codegen/test_aot.py",
    "--cache|cache --|cache$": "changes the cache of this machine, or is about it",
    "plugin|my-simplify|subtraction-finder": "tests/unit/opt/test_authoring.py, test_plugin.py",
    "learn (check|new|export)": "tests/unit/learn",
    "DIR/|repro.hlo|snapshot|=NAME|train_step.hlo|train.hlo": "goes on with other files",
    "COMMAND|CODE|WORD|cmd|(ops|targets|passes) NAME|zsh|convert FILE": "a form, not a command",
    "--profile|roofline|hloc check|-O2 --run": "other tests run it, on a file of its own",
    "^hloc bisect|^hloc doctor": "tests/unit/cli/test_bisect.py, test_tools.py",
}
"""What is not run here, and why."""


def test_there_are_commands_to_check() -> None:
    assert len(SHOWN) > 200
    named = {word for line in SHOWN for word in line.split()[1:2]}
    assert named > set(COMMANDS)


@pytest.mark.parametrize("line", sorted(set(SHOWN) - FRAGMENTS))
def test_a_command_of_a_page_has_options_that_exist(line: str) -> None:
    program, *words = shlex.split(line)
    if program == "hlo-repl":
        repl_arguments(words)
    elif "--target=c" not in words:
        command, words = command_and_words(words)
        parse_arguments(command, words)


ALONE = frozenset(("passes", "rules", "ops", "targets", "explain", "learn", "help", "completion"))
"""Commands that need no file."""


def _is_run(line: str) -> bool:
    command, *words = line.split()[1:]
    is_whole = command in ALONE or command not in COMMANDS or any(w[0] != "-" for w in words)
    return is_whole and not any(re.search(reason, line) for reason in NOT_RUN)


@pytest.mark.parametrize("line", sorted(filter(_is_run, set(SHOWN) - FRAGMENTS)))
def test_a_command_of_a_page_runs(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    words = shlex.split(line)[1:]
    monkeypatch.chdir(tmp_path)
    _make_inputs(words)
    words = [part for word in words for part in sorted(glob(word)) or [word]]
    assert main(words) == 0, capsys.readouterr().err
    if "-o" in words:
        assert list(Path().glob(words[words.index("-o") + 1].partition(".")[0] + "*"))


def _make_inputs(words: list[str]) -> None:
    """Write the files that a command reads, whatever the page calls them."""
    needs_devices = words[0] in ("partition", "explain-sharding")
    text = (ROOT / SHARDED).read_text() if needs_devices else TEXT
    Path("examples").symlink_to(ROOT / "examples")
    outputs = {after for word, after in pairwise(words) if word in ("-o", "--output")}
    for word in set(words) - outputs:
        name = word.replace("*", "one")
        if Path(name).exists():
            continue
        if word in ("FILE", "A", "B") or name.endswith((".hlo", ".txt")):
            Path(name).write_text(text)
        elif name.endswith(".npz"):
            np.savez(name, arg0=np.ones((8, 4), np.float32))
        elif name.endswith(".pb"):
            Path("of.hlo").write_text(text)
            assert main(["convert", "-q", "of.hlo", "-o", name]) == 0
