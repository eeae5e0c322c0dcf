"""`python -m repl` and the console script `hlo-repl`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from hloc.address_space import prepare_numpy
from hloc.report.exits import ending
from hloc.report.process import let_idle_threads_sleep


def process() -> NoReturn:
    """Run the program `hlo-repl` and exit; scripts of users may have files open."""
    let_idle_threads_sleep()
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Start the REPL with `argv` (without the program name) and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)

    def run() -> int:
        prepare_numpy()
        from repl.app import run_program  # takes a while, during which Ctrl-C may arrive

        return run_program(words)

    return ending("hlo-repl", run, whole=argv is None)


if __name__ == "__main__":
    process()
