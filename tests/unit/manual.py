"""The commands that README and docs show, as a reader would type them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`((?:hloc|hlo-repl)\s[^`]+)`(?!`)")
_STARTED = re.compile(r"(?:\$ )?(?:\S*/)?(?:(?:mpiexec|srun) -n \d+ )?(?:\S*/)?(hloc |hlo-repl )")
_END = re.compile(r"\s{2,}| [|>] | 2?>| && |;")
_NO_COMMAND = re.compile(r"\.\.\.|…|\[|\bNN?\b|<|hloc has no ")
"""Forms such as `hloc ops [NAME]` and `hloc learn N`, which tell a syntax, and a message."""


def commands() -> dict[str, str]:
    """Return each command that a page shows, with the first page that does."""
    found: dict[str, str] = {}
    for page in PAGES:
        text = page.read_text()
        for line in _lines(text):
            found.setdefault(line, page.name)
    return found


def _lines(text: str) -> Iterator[str]:
    for block in _BLOCK.findall(text):
        for line in re.split(r"\n| && ", block):
            start = _STARTED.match(line)
            if start:
                yield from _command(line[start.start(1) :])
    for inline in _INLINE.findall(_BLOCK.sub("", text)):
        yield from _command(" ".join(inline.split()))


def _command(line: str) -> Iterator[str]:
    """Yield `line` without what explains it, takes its output, or follows it."""
    line = _END.split(line)[0].strip()
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return
    line = shlex.join(words)
    if len(words) > 1 and not _NO_COMMAND.search(line):
        yield line
