"""`hloc completion bash|zsh|fish`: a script that completes command lines of hloc.

The script contains all names, so that completion does not start Python.
"""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.completion import bash, fish, zsh
from hloc.cli.talk import Talk
from hloc.near_names import did_you_mean
from hloc.report.exits import Exit, UsageError

SHELLS = {
    "bash": bash.script,
    "zsh": zsh.script,
    "fish": fish.script,
}


def print_completion(arguments: Namespace, talk: Talk) -> int:
    """Print the script of one shell."""
    known = ", ".join(SHELLS)
    if len(arguments.files) != 1:
        raise UsageError(f"expected the name of a shell: {known}")
    (shell,) = arguments.files
    if shell not in SHELLS:
        raise UsageError(f"expected {known}, found {shell!r}{did_you_mean(shell, SHELLS)}")
    talk.product(SHELLS[shell]())
    return Exit.OK
