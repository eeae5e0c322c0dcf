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
        function: `module:name`, imported on first use.
    """

    usage: str
    summary: str
    function: str

    def load(self) -> CommandFunction:
        """Import the function."""
        module, _, name = self.function.partition(":")
        return cast(CommandFunction, getattr(import_module(module), name))


COMPILE_COMMAND = Command("FILE...", "compile", "hloc.cli.run_command:compile_files")

COMMANDS: dict[str, Command] = {
    "run": Command(
        "run FILE...",
        "compile and run, like `hloc FILE... --run`",
        "hloc.cli.run_command:run_files",
    ),
    "parse": Command(
        "parse FILE...", "parse, verify and print HLO text", "hloc.cli.read_commands:parse_files"
    ),
    "verify": Command(
        "verify FILE...", "parse and verify, print nothing", "hloc.cli.read_commands:verify_files"
    ),
    "convert": Command(
        "convert FILE -o FILE",
        "write a module in another format: HLO text, protocol buffer, StableHLO",
        "hloc.cli.convert_command:convert_file",
    ),
    "diff": Command(
        "diff A B",
        "compare two modules by instruction (exit code 0: same, 1: different, 2: error)",
        "hloc.cli.diff_command:diff_files",
    ),
    "stats": Command(
        "stats FILE...",
        "count opcodes, operations, bytes and constants",
        "hloc.cli.stats_command:print_statistics",
    ),
    "extract": Command(
        "extract FILE %NAME",
        "print the part of a module that an instruction depends on",
        "hloc.cli.extract_command:extract_module",
    ),
    "graph": Command(
        "graph FILE [%NAME] -o OUT",
        "draw a module, or the neighbourhood of an instruction, as .html, .svg or .dot",
        "hloc.cli.graph_command:graph_file",
    ),
    "roofline": Command(
        "roofline FILE -o OUT.svg",
        "plot each kernel against the peaks of this machine",
        "hloc.cli.roofline_command:roofline_file",
    ),
    "bisect": Command(
        "bisect FILE",
        "find the pass and rewrite that break a module, and reduce the module",
        "hloc.cli.bisect_command:bisect_file",
    ),
    "reduce": Command(
        "reduce FILE --test 'COMMAND {}'",
        "reduce a module while a command exits with 0",
        "hloc.cli.reduce_command:reduce_file",
    ),
    "check": Command(
        "check FILE...",
        "run the `// RUN: hloc %s ...` lines of a file and match its `// CHECK:` lines",
        "hloc.cli.check_command:check_files",
    ),
    "fmt": Command(
        "fmt FILE...",
        "format HLO text, keeping comments and order",
        "hloc.cli.fmt_command:format_files",
    ),
    "explain": Command(
        "explain CODE|NAME",
        "explain a diagnostic, pass, rule, opcode, or exit-codes",
        "hloc.cli.explain_command:explain",
    ),
    "explain-sharding": Command(
        "explain-sharding FILE",
        "list the collectives of a sharded module: why each is there, bytes, modelled time",
        "hloc.cli.explain_sharding_command:explain_sharding_file",
    ),
    "partition": Command(
        "partition FILE",
        "print the program of each device of an annotated program",
        "hloc.cli.partition_command:partition_file",
    ),
    "passes": Command(
        "passes [NAME]", "list passes, or describe one", "hloc.cli.list_commands:list_passes"
    ),
    "rules": Command(
        "rules [NAME]",
        "list rewrite rules, or those whose name contains NAME",
        "hloc.cli.list_commands:list_rules",
    ),
    "ops": Command(
        "ops [NAME]", "list opcodes, or describe one", "hloc.cli.list_commands:list_opcodes"
    ),
    "targets": Command(
        "targets [NAME]",
        "list targets and their processors",
        "hloc.cli.targets_command:list_targets",
    ),
    "doctor": Command(
        "doctor",
        "print versions, processor, cache and optional packages of this machine",
        "hloc.cli.doctor_command:doctor",
    ),
    "cache": Command(
        "cache",
        "show or trim the compile cache",
        "hloc.cli.cache_command:cache",
    ),
    "learn": Command(
        "learn [N|check|new|export]",
        "lessons: `learn` lists them, `learn 3` prints one, `learn check 3 FILE` checks a "
        "solution, "
        "`learn new NAME` creates one, `learn export 3 -o FILE` writes .md, .html or .ipynb",
        "hloc.cli.learn_command:learn",
    ),
    "completion": Command(
        "completion bash|zsh|fish",
        "print a script that completes commands, options and names in a shell",
        "hloc.cli.completion_command:print_completion",
    ),
    "repl": Command(
        "repl [FILE]", "start the interactive program hlo-repl", "hloc.cli.repl_command:start_repl"
    ),
}
