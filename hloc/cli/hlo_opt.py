"""The program `hlo-opt`: the flags of XLA's `hlo-opt`, run by hloc.

Each flag becomes one or several words for `hloc`; `docs/coming-from-xla.md` has the table. Options
of XLA's compiler (`--xla_...`) have no effect, as in `hloc`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import NoReturn

from hloc.cli import main as hloc_main
from hloc.cli.arguments import Parser
from hloc.errors import printable
from hloc.near_names import did_you_mean
from hloc.report.exits import Exit, UsageError, ending
from hloc.report.process import run_process

PLATFORMS = {
    "transforms": "",
    "cpu": "",
    "host": "",
    "gpu": "nvptx64",
    "cuda": "nvptx64",
    "rocm": "amdgcn",
}
"""XLA's platform -> hloc's target; "" is this machine."""

STAGES = {
    "hlo": "hlo",
    "hlo-backend": "schedule",
    "buffer-assignment": "buffers",
    "llvm": "llvm-ir-opt",
    "llvm-before-optimizations": "llvm-ir",
    "llvm-after-optimizations": "llvm-ir-opt",
    "ptx": "ptx",
    "html": "html",
}
"""XLA's stage -> its name in `hloc --emit`."""

_VALUES = ("platform", "stage", "passes", "format")
_SWITCHES = ("list-passes", "list-stages", "split-input-file", "emit-proto")

_USAGE = """\
usage: hlo-opt [--platform=cpu|gpu|rocm] [--passes=a,b] [--stage=STAGE] [-o FILE] FILE

  --passes=NAME[,NAME]   run these passes; without it those of -O2
  --platform=NAME        {platforms}
  --stage=NAME           what to print: {stages}
  --list-passes          print the names of the passes, one on a line
  --list-stages          print the names of the stages
  -o FILE                write to FILE, `-` is stdout
  --format=hlo|pb        format of the input; ignored, hloc detects it
  --split-input-file     split modules at `// -----` lines; hloc always does

Other options are those of `hloc FILE`: see hloc --help. docs/coming-from-xla.md has more.
"""


def process() -> NoReturn:
    """Run the program `hlo-opt` and exit."""
    run_process(main)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hlo-opt` with `argv` (without the program name) and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return ending("hlo-opt", lambda: _run(words), whole=argv is None)


def _run(words: Sequence[str]) -> int:
    try:
        options, rest = _parsed(words)
        if options.help:
            sys.stdout.write(usage())
            return Exit.OK
        if options.list_stages:
            sys.stdout.write("".join(f"{name}\n" for name in sorted(STAGES)))
            return Exit.OK
        if options.list_passes:
            return _list_passes()
        words = hloc_words(options, rest)
    except UsageError as fault:
        sys.stderr.write(f"hlo-opt: error: {printable(str(fault))}\nsee `hlo-opt --help`\n")
        return Exit.USAGE
    return hloc_main(words)


def usage() -> str:
    """Return the help."""
    return _USAGE.format(platforms=", ".join(PLATFORMS), stages=", ".join(STAGES))


def _parsed(words: Sequence[str]) -> tuple[Namespace, list[str]]:
    parser = Parser(add_help=False, allow_abbrev=False, prog="hlo-opt")
    for flag in ("platform", "stage"):
        parser.add_argument(f"--{flag}", default="transforms" if flag == "platform" else "hlo")
    parser.add_argument("--passes")
    parser.add_argument("-o", "--o", dest="output", default="-")
    parser.add_argument("--format", default="")
    parser.add_argument("--debug_options_file")
    for flag in _SWITCHES:
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("-h", "--help", action="store_true")
    # Abseil and TensorFlow accept `-` and `_` between the words of a flag, and one dash or two.
    return parser.parse_known_args([_spelling(word) for word in words])


def _spelling(word: str) -> str:
    flag, equals, value = word.partition("=")
    plain = flag.lstrip("-").replace("_", "-")
    if flag.startswith("-") and plain in (*_VALUES, *_SWITCHES):
        if value in ("true", "false") and plain in _SWITCHES:
            return f"--{plain}" if value == "true" else ""
        return f"--{plain}{equals}{value}"
    return word


def hloc_words(options: Namespace, rest: Sequence[str]) -> list[str]:
    """Return the words for `hloc` that correspond to the flags of hlo-opt.

    Raises:
        UsageError: a platform, stage or form that hloc does not have.
    """
    stage = _chosen("--stage", options.stage, STAGES)
    platform = "gpu" if options.stage == "ptx" and options.platform == "transforms" else ""
    target = _chosen("--platform", platform or options.platform, PLATFORMS)
    if options.emit_proto or options.format == "pbtxt":
        raise UsageError("text protos are not read or written: hloc convert FILE -o FILE.pb")
    words = [word for word in rest if word]
    words.append(f"--emit={stage}")
    if target:
        words.append(f"--target={target}")
    if options.passes is not None:
        words.append(f"--passes={options.passes}")
    if options.output != "-":
        words += ["-o", options.output]
    return words


def _chosen(flag: str, name: str, table: dict[str, str]) -> str:
    if name not in table:
        known = ", ".join(table)
        raise UsageError(
            f"{flag}: expected one of {known}, found {name!r}{did_you_mean(name, table)}"
        )
    return table[name]


def _list_passes() -> int:
    from hloc.opt.registry import ALIASES, PASSES

    sys.stdout.write("".join(f"{name}\n" for name in sorted({*PASSES, *ALIASES})))
    return Exit.OK
