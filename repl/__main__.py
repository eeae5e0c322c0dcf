"""`python -m repl` and the console script `hlo-repl`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Start the REPL with `argv` (without the program name) and return the exit code."""
    from repl.app import run_program

    return run_program(list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
