"""`hloc FILE...` and `hloc run FILE...`: without parsing if the program is in the cache."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.talk import Talk


def run_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc run FILE...`."""
    arguments.run, arguments.emit, arguments.output_file = True, (), None
    arguments.style, arguments.tuple_style, arguments.repro = "default", "full", False
    arguments.compile_only, arguments.shared = False, False
    return compile_files(arguments, talk)


def compile_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc FILE...`: process the files in order; the highest exit code counts."""
    if arguments.run:
        from hloc.cli.kept_run import run_kept

        code = run_kept(arguments, talk)
        if code is not None:
            return code
    from hloc.cli.compile_command import compile_each

    return compile_each(arguments, talk)
