"""The tree-sitter grammar, built, and asked about texts.

`python -m tests.unit.editors.tree_sitter_hlo FOLDER` (`make tree-sitter TEXTS=FOLDER`) reads every
`.hlo` and `.hlo.gz` file below FOLDER that hloc reads, and tells how many of them the grammar reads
without an ERROR or MISSING node. It needs `tree-sitter` (the program) and a C compiler.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from hloc.errors import HloError
from hloc.parser import read_module
from hloc.source import SourceFile

FOLDER = Path(__file__).resolve().parents[3] / "editors" / "tree-sitter-hlo"
_FAULT = re.compile(r"(\d+)\.hlo\s+Parse:.*\((?:ERROR|MISSING)")
_CAPTURE = re.compile(r"- ([\w.]+), start: \((\d+), (\d+)\)")


class Capture(NamedTuple):
    """What highlights.scm calls a piece of text; line and column in bytes, from 0."""

    name: str
    line: int
    column: int


class Grammar:
    """The grammar in `folder`, copied and generated there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "grammar"
        shutil.copytree(FOLDER, self.folder, ignore=shutil.ignore_patterns("src", "*.so"))
        self._run("generate")

    def _run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tree-sitter", *words],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def library(self, path: Path) -> None:
        """Write the parser as a library that editors load."""
        path.parent.mkdir(parents=True, exist_ok=True)
        words = ["cc", "-shared", "-fPIC", "-I", "src", "src/parser.c", "-o", str(path)]
        subprocess.run(words, cwd=self.folder, check=True, capture_output=True)

    def test(self) -> str:
        """Return what `tree-sitter test` prints, which must find nothing wrong."""
        return self._run("test")

    def faults(self, texts: Sequence[str | bytes]) -> list[int]:
        """Return the indices of the texts that have an ERROR or a MISSING node."""
        folder = self.folder / "texts"
        folder.mkdir()
        paths = [folder / f"{number}.hlo" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        (folder / "paths").write_text("".join(f"{path}\n" for path in paths))
        said = self._run("parse", "--quiet", "--paths", str(folder / "paths"), check=False)
        shutil.rmtree(folder)
        return [int(found) for found in _FAULT.findall(said)]

    def captures(self, path: Path) -> list[Capture]:
        """Return what the query of colours captures in a file."""
        said = self._run("query", "--captures", "queries/highlights.scm", str(path))
        rows = _CAPTURE.findall(said)
        return [Capture(row[0], int(row[1]), int(row[2])) for row in rows if row[0][0] != "_"]


def grammar_or_skip(folder: Path) -> Grammar:
    """Return the grammar, built in `folder`; skip without the programs that build it."""
    for program in ("tree-sitter", "cc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return Grammar(folder)


def is_legal(data: bytes) -> bool:
    """Tell whether hloc reads a text as a module."""
    try:
        read_module(SourceFile(data.decode("utf-8", "surrogateescape")))
    except HloError:
        return False
    return True


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    paths = sorted([*folder.rglob("*.hlo"), *folder.rglob("*.hlo.gz")])
    read = {path: _bytes(path) for path in paths}
    legal = [path for path in paths if is_legal(read[path])]
    with TemporaryDirectory() as temporary:
        faults = Grammar(Path(temporary)).faults([read[path] for path in legal])
    for number in faults:
        print(legal[number], file=sys.stderr)
    share = 1 - len(faults) / max(1, len(legal))
    print(f"{len(legal)} legal texts, {len(legal) - len(faults)} without a fault: {share:.2%}")
    return 0 if legal and share >= 0.99 else 1


if __name__ == "__main__":
    sys.exit(main())
