"""The fast way of reading against the grammar: the same verdict on every text, the same tree.

`python -m tests.unit.parser.two_ways` compares the whole corpus and 75,000 mutations of it
(`make parse-equality`); `test_two_ways.py` does a sample.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from hloc.errors import HloError
from hloc.parser import read_module
from hloc.parser.to_ast import parse_ast
from hloc.source import SourceFile

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT.parent / "shared" / "conformance" / "corpus"
SMALL_BYTES = 20_000
"""Texts up to this size are mutated."""

_TOKEN = re.compile(r"[A-Za-z0-9_.%\-]+|\s+|.", re.DOTALL)
_FOREIGN = (
    "{", "}", "(", ")", "[", "]", ",", ", ", "=", " = ", "->", '"', "'", "/*", "*/", "//", ":", "?",
    "<=", ";", "+", "-", " ", "\n", "\t", "\v", "\u00a0", "\u0663", "0", "-0", "1", "1e999", "inf",
    "nan(0x1)", "99999999999999999999", "x", "b", "%x", "hello", "f32[2]", "f32[]{}", "f32[2]{0}",
    "token[]", "(f32[], s32[])", "ROOT", "ENTRY", "HloModule m", "constant(1)", "parameter(0)",
    "to_apply={a = f32[] parameter(0)}", "sharding={devices=[2]<=[2]}", "index=9", "metadata={}",
    'metadata={op_name="a\\q"}', "mesh['x'=2]", "negate-start(x)", "/*index=5*/", "true", "T(8)",
    "#", "#0", "#1#0",
)  # fmt: skip


def own_texts() -> list[str]:
    """Return the examples and the texts of the golden tests."""
    paths = [*(ROOT / "examples").rglob("*.hlo"), *(ROOT / "tests" / "golden").rglob("*.hlo")]
    return [text for path in sorted(paths) for text in _cases(path.read_text())]


def _cases(text: str) -> Iterable[str]:
    pieces = re.split(r"^// -----$|^// EXPECT.*$", text, flags=re.MULTILINE)
    return (piece for piece in pieces if piece.strip())


def corpus_texts() -> list[str]:
    """Return the texts of the conformance corpus, none if it is not beside the checkout."""
    found = []
    for path in sorted(CORPUS.rglob("*.hlo")) + sorted(CORPUS.rglob("*.hlo.gz")):
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        found.append(data.decode("utf-8", "surrogateescape"))
    return found


def mutated(text: str, rng: random.Random) -> str:
    """Return `text` with one token deleted, doubled, swapped, replaced or put in."""
    tokens = _TOKEN.findall(text)
    at, there = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    kind = rng.randrange(5)
    if kind == 0:
        del tokens[at]
    elif kind == 1:
        tokens.insert(there, tokens[at])
    elif kind == 2:
        tokens[at], tokens[there] = tokens[there], tokens[at]
    elif kind == 3:
        tokens[at] = rng.choice(_FOREIGN)
    else:
        tokens.insert(at, rng.choice(_FOREIGN))
    return "".join(tokens)


def compare(text: str) -> tuple[bool, str]:
    """Return whether `text` is taken, and in which way the two readings differ, "" for none."""
    source = SourceFile(text)
    fast, slow = _read(source, True), _read(source, False)
    if fast is None or slow is None:
        if fast is slow:
            return False, ""
        return True, f"the {'grammar' if fast is None else 'fast way'} alone takes it"
    if parse_ast(source, True)[0] != parse_ast(source, False)[0]:
        return True, "the syntax trees differ"
    return True, "" if _facts(fast) == _facts(slow) else "the modules differ"


def _read(source: SourceFile, fast: bool) -> Any:
    try:
        return read_module(source, fast)
    except HloError:
        return None


def _facts(module: Any) -> Any:
    spans = [
        (inst.name, inst.span and (inst.span.start, inst.span.end))
        for computation in module.computations
        for inst in computation.instructions
    ]
    return module.to_text("default", large_constants=True), module.stack_frames, spans


def mutations(texts: list[str], count: int, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    small = [text for text in texts if len(text) < SMALL_BYTES]
    for _ in range(count):
        yield mutated(rng.choice(small), rng)


def _compared(text: str) -> tuple[str, bool, str]:
    return text, *compare(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=75_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    texts = own_texts() + corpus_texts()
    for what, some in (
        ("texts", iter(texts)),
        ("mutations", mutations(texts, options.mutations, options.seed)),
    ):
        count: Counter[str] = Counter()
        started = time.perf_counter()
        with Pool(options.jobs) as pool:
            for text, taken, found in pool.imap_unordered(_compared, some, chunksize=50):
                count["taken" if taken else "refused"] += 1
                if found:
                    count["different"] += 1
                    print(f"{found}:\n{text[:2000]}\n", file=sys.stderr)
        print(
            f"{what}: {count['taken']} taken, {count['refused']} refused, "
            f"{count['different']} differences "
            f"({time.perf_counter() - started:.0f} s)",
            flush=True,
        )
        if count["different"]:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
