"""`hloc FILE...` and `hloc run FILE`: read, optimise, emit, run, compare."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from fnmatch import fnmatchcase

from hloc.cli.aot_command import check_library
from hloc.cli.command_words import check_not_a_command
from hloc.cli.compile_job import CompileJob
from hloc.cli.emit import check_kinds
from hloc.cli.guard import guarded_each
from hloc.cli.pass_options import checked_pipeline, compile_options, load_plugins
from hloc.cli.process_job import ProcessJob, process_job, together
from hloc.cli.progress import progress_of
from hloc.cli.talk import Talk
from hloc.cli.watching.pass_report import names_of
from hloc.cli.watching.reproducer import apply_header
from hloc.errors import HloError, printable
from hloc.near_names import did_you_mean
from hloc.options import CompileOptions
from hloc.report.exits import UsageError
from hloc.report.folding import folded
from hloc.report.json_report import json_report
from hloc.report.repro_file import ENDING, HEADER, header_words
from hloc.report.source_input import need_files, read_source, shown_name

_COMPARE_WORDS = ("interp", "O0", "xla")


def compile_each(arguments: Namespace, talk: Talk) -> int:
    """`hloc FILE...`: process the files in order; the highest exit code counts."""
    load_plugins(arguments)
    if arguments.resume_from:
        from hloc.cli.resume import resume

        talk.say(folded(resume(arguments), talk.width))
    files = need_files(arguments.files)
    check_not_a_command(files[0])  # do not compile the words after a misspelt command
    _check(arguments)
    options = compile_options(arguments)
    check_kinds(arguments.emit, options.target)
    _check_names(options, arguments.print_after)
    processes = process_job(arguments)
    if processes is not None:
        if arguments.format == "json":
            raise UsageError("--format=json needs a run in one process")
        return together(
            processes,
            talk,
            lambda talk: guarded_each(
                talk, files, lambda name: _job(name, arguments, talk, processes).run()
            ),
        )
    talk.documents = [] if arguments.format == "json" else None
    code = guarded_each(talk, files, lambda name: _job(name, arguments, talk).run())
    if talk.documents is not None:
        talk.product(json_report("compile", {"modules": talk.documents}))
    return code


def _job(
    name: str, arguments: Namespace, talk: Talk, processes: ProcessJob | None = None
) -> CompileJob:
    """Return the job of one file, with the options of a reproducer's header."""
    check_not_a_command(name)
    if arguments.repro or name.endswith(ENDING):
        words = header_words(read_source(name).text)
        if arguments.repro and not words:
            raise HloError(f"{shown_name(name)} has no line `{HEADER}`")
        if words:
            arguments = Namespace(**vars(arguments))
            apply_header(arguments, words)
            talk.say(f"{shown_name(name)}: {printable(shlex.join(words))}")
    options = compile_options(arguments)
    if processes is not None:
        options = processes.options(options)
    return CompileJob(name, arguments, options, talk, progress_of(talk), processes)


def _check(arguments: Namespace) -> None:
    """Raise UsageError for options that contradict each other."""
    check_library(arguments)
    if arguments.format == "json" and arguments.emit and not arguments.output_file:
        raise UsageError("--format=json with --emit needs -o FILE")
    if not arguments.run:
        for option in ("inputs", "output", "compare_with", "random", "repeat", "print_output"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')} needs --run")
        for option in ("input", "profile", "compare_each"):
            if getattr(arguments, option):
                raise UsageError(f"--{option.replace('_', '-')} needs --run")
    if arguments.profile and arguments.backend == "interp":
        raise UsageError("--profile times machine code, not --backend=interp")
    if arguments.profile and arguments.simulate == "host":
        raise UsageError("--profile: native code has no counters; use --simulate=ptx")
    if arguments.random is not None and arguments.inputs:
        raise UsageError("--random and --inputs exclude each other")
    if len(arguments.files) > 1 and (arguments.output_file or arguments.output or arguments.memory):
        raise UsageError("an output file needs a single input file")
    if len(arguments.files) > 1 and arguments.dump_dir:
        raise UsageError("--dump-dir needs a single input file")
    if arguments.repro and "-" in arguments.files:
        raise UsageError("--repro needs a file, not stdin")
    other = arguments.compare_with
    if other and other not in (*_COMPARE_WORDS, "snapshot") and not other.endswith(".npz"):
        raise UsageError(
            f"--compare-with: expected interp, O0, xla, snapshot or FILE.npz, found {other!r}"
        )


def _check_names(options: CompileOptions, print_after: Sequence[str]) -> None:
    """Raise UsageError for a pass or rule that does not exist, before any file is read."""
    names = [name for what in checked_pipeline(options).passes for name in names_of(what)]
    for pattern in print_after:
        if not any(fnmatchcase(name, pattern) for name in names):
            hint = did_you_mean(pattern, names)
            raise UsageError(f"--print-after: no pass of the pipeline is named {pattern!r}{hint}")
