"""`hloc lsp`: the language server, which editors start (docs/editors.md)."""

from __future__ import annotations

from argparse import Namespace
from importlib.util import find_spec

from hloc.cli.talk import Talk
from hloc.errors import HloError
from hloc.report.exits import Exit, UsageError


def serve_editor(arguments: Namespace, talk: Talk) -> int:
    """`hloc lsp`: serve an editor on stdin and stdout until it disconnects."""
    if arguments.files:
        raise UsageError("hloc lsp takes no files: the editor sends the texts")
    if find_spec("pygls") is None:
        raise HloError("hloc lsp needs the package pygls", notes=("pip install 'hloc[lsp]'",))
    from hloc.lsp.server import serve

    return Exit.OK if serve() else Exit.FAULT
