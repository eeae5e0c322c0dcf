"""The subcommands of `hloc`, each a row with the function that implements it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

from hloc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from argparse import Namespace

    from hloc.cli.talk import Talk

CommandFunction: TypeAlias = Callable[["Namespace", "Talk"], int]
"""Runs a command and returns the exit code."""


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand.

    Attributes:
        usage: the words after `hloc`.
        examples: command lines, also without `hloc`.
        function: `module:name`, imported on first use.
    """

    usage: str
    summary: str
    function: str
    examples: tuple[str, ...]

    def load(self) -> CommandFunction:
        """Import the function."""
        module, _, name = self.function.partition(":")
        return cast(CommandFunction, getattr(import_module(module), name))


def _row(usage: str, summary: str, function: str, *examples: str) -> Command:
    """Return the row of a command whose function is in `hloc/cli/`."""
    return Command(usage, summary, f"hloc.cli.{function}", examples)


COMPILE_COMMAND = _row(
    "FILE...",
    "compile",
    "run_command:compile_files",
    "m.hlo --passes=fusion,dce --print-changed",
    "m.hlo -O3 --emit=asm -o m.s",
)

_ROWS = (
    _row(
        "run FILE...",
        "compile and run, like `hloc FILE... --run`",
        "run_command:run_files",
        "run m.hlo --input 'x=normal(0,1)' --compare-with=interp",
        "run m.hlo --profile --print-output=0",
    ),
    _row(
        "parse FILE...",
        "parse, verify and print HLO text",
        "read_commands:parse_files",
        "parse m.hlo --style=short",
        "parse dump.txt -o m.hlo",
    ),
    _row(
        "verify FILE...",
        "parse and verify, print nothing",
        "read_commands:verify_files",
        "verify a.hlo b.hlo",
        "verify m.hlo --format=json",
        "verify --prove before.hlo after.hlo",
    ),
    _row(
        "convert FILE -o FILE",
        "write a module in another format: HLO text, protocol buffer, StableHLO",
        "convert_command:convert_file",
        "convert m.hlo -o m.pb",
        "convert m.pb --to=stablehlo -o m.mlir",
    ),
    _row(
        "diff A B",
        "compare two modules by instruction (exit code 0: same, 1: different, 2: error)",
        "diff_command:diff_files",
        "diff before.hlo after.hlo",
        "diff before.hlo after.hlo --ignore=none --stat",
        "diff before.hlo after.hlo --html=diff.html",
    ),
    _row(
        "hash FILE...",
        "print a digest of each module that does not depend on names, metadata and order",
        "hash_command:hash_files",
        "hash a.hlo b.hlo",
        "hash *.before_optimizations.txt --ignore=shapes,constants",
    ),
    _row(
        "stats FILE...",
        "count opcodes, operations, bytes and constants",
        "stats_command:print_statistics",
        "stats m.hlo --by=opcode",
    ),
    _row(
        "extract FILE %NAME",
        "print the part of a module that an instruction depends on",
        "extract_command:extract_module",
        "extract m.hlo %dot.3 --height=2 -o part.hlo",
    ),
    _row(
        "flatten FILE",
        "fix how often loops run and which branches are taken, for benchmarks",
        "flatten_command:flatten_module",
        "flatten m.hlo --trips=100 -o bench.hlo",
        "flatten m.hlo --most-trips=10 --branch=0",
    ),
    _row(
        "graph FILE [%NAME] -o OUT",
        "draw a module, or the neighbourhood of an instruction, as .html, .svg, .dot or .json",
        "graph_command:graph_file",
        "graph m.hlo -o m.html",
        "graph m.hlo %dot.3 --radius=3 -o near.svg",
        "graph m.hlo --format=model-explorer -o m.json",
    ),
    _row(
        "bench FILE",
        "time the compiled module, with the spread of its runs, beside XLA on request",
        "bench_command:bench_file",
        "bench m.hlo --against=xla --threads=1",
        "bench m.hlo --profile",
    ),
    _row(
        "roofline FILE [-o OUT.svg]",
        "compare each kernel with the peaks of this machine, in a table or a chart",
        "roofline_command:roofline_file",
        "roofline m.hlo --run",
        "roofline m.hlo --run -o roofline.svg",
    ),
    _row(
        "bisect FILE",
        "find the pass and rewrite that break a module, and reduce the module",
        "bisect_command:bisect_file",
        "bisect m.hlo -O2 -o small.hlo",
        "bisect m.hlo --against=xla",
    ),
    _row(
        "isolate FILE",
        "run each instruction alone on its true inputs, as hloc or XLA compiles it, and name those "
        "that diverge (exit code 1)",
        "isolate_command:isolate_file",
        "isolate m.hlo --against=xla --repro-dir=pieces",
        "isolate before.hlo --against=after.hlo",
    ),
    _row(
        "nan FILE",
        "find where the first NaN and the first infinity arise, and the values that led there "
        "(exit code 1 if a NaN does)",
        "nan_command:find_nan",
        "nan m.hlo --inputs=in.npz",
        "nan m.hlo --input x=special -o slice.hlo",
    ),
    _row(
        "reduce FILE --test 'COMMAND {}'",
        "reduce a module while a command exits with 0",
        "reduce_command:reduce_file",
        "reduce m.hlo --test 'grep -q tanh {}' -o small.hlo",
    ),
    _row(
        "check FILE...",
        "run the `// RUN: hloc %s ...` lines of a file and match its `// CHECK:` lines",
        "check_command:check_files",
        "check tests/*.hlo",
        "check m.hlo --update",
    ),
    _row(
        "fmt FILE...",
        "format HLO text, keeping comments and order",
        "fmt_command:format_files",
        "fmt m.hlo",
        "fmt --check *.hlo",
    ),
    _row(
        "explain CODE|NAME",
        "explain a diagnostic, pass, rule, opcode, or exit-codes",
        "explain_command:explain",
        "explain HLOC0105",
        "explain fusion",
    ),
    _row(
        "explain-sharding FILE",
        "list the collectives of a sharded module: why each is there, bytes, modelled time",
        "explain_sharding_command:explain_sharding_file",
        "explain-sharding m.hlo --mesh=x=4,y=2 --links=nvlink",
    ),
    _row(
        "partition FILE",
        "print the program of each device of an annotated program",
        "partition_command:partition_file",
        "partition m.hlo -o device.hlo",
    ),
    _row(
        "passes [NAME]",
        "list passes, or describe one; `hloc m.hlo --passes='cse,fix(algsimp,dce)'` runs some, the "
        "group in `fix(...)` again until nothing changes",
        "list_commands:list_passes",
        "passes fusion",
    ),
    _row(
        "rules [NAME]",
        "list rewrite rules, or those whose name contains NAME",
        "list_commands:list_rules",
        "rules add",
        "rules --proof select",
    ),
    _row("ops [NAME]", "list opcodes, or describe one", "list_commands:list_opcodes", "ops dot"),
    _row(
        "targets [NAME]",
        "list targets and their processors",
        "targets_command:list_targets",
        "targets nvptx64",
    ),
    _row(
        "doctor [DUMP_DIR [DUMP_DIR]]",
        "explain a folder written by XLA's --xla_dump_to: what passes changed, memory, copies, "
        "what was not fused and why; of two folders or modules, what differs and why it matters; "
        "without a folder, check the installation",
        "doctor_command:doctor",
        "doctor",
        "doctor dump/",
        "doctor dump/ --module=jit_step --html=step.html",
        "doctor before/ after/",
    ),
    _row("cache", "show or trim the compile cache", "cache_command:cache", "cache --trim=256M"),
    _row(
        "learn [list|N|start|check|new|export]",
        "lessons: `learn list` names them, `learn 3` prints one, `learn start 3` copies it into a "
        "folder to work in and opens hlo-repl, `learn check 3 FILE` checks a solution, `learn new "
        "NAME` creates one, `learn export 3 -o FILE` writes .md, .html or .ipynb",
        "learn_command:learn",
        "learn list",
        "learn 3",
        "learn start 3",
        "learn check 3 answer.py",
    ),
    _row(
        "completion bash|zsh|fish",
        "print a script that completes commands, options and names in a shell",
        "completion_command:print_completion",
        "completion bash > ~/.local/share/bash-completion/completions/hloc",
    ),
    _row(
        "lsp",
        "the language server, which editors start: docs/editors.md",
        "lsp_command:serve_editor",
        "lsp",
    ),
    _row(
        "repl [FILE]",
        "start the interactive program hlo-repl",
        "repl_command:start_repl",
        "repl m.hlo",
    ),
    _row(
        "web [FILE|DUMP_DIR]...",
        "open a page in the browser: edit a module, step through its passes and rewrites with "
        "diff and graph, run it, see its machine code",
        "web_command:web",
        "web m.hlo",
        "web dump/ --no-browser --port=8000",
        "web --classroom --host=192.0.2.7",
    ),
)

COMMANDS = {row.usage.split()[0]: row for row in _ROWS}
"""The subcommands by name."""
