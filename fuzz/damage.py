"""Damaged texts, protos and snapshots: each is read, or refused by an `HloError` that can be shown.

Texts are damaged by tokens: one is deleted, doubled, exchanged with another or with a foreign one,
or the text is cut off. Bytes are changed, deleted, doubled, or cut off.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from hloc.errors import HloError
from hloc.formats.proto_literals import fill_literal
from hloc.formats.read import read_snapshot
from hloc.formats.runtime import message_class
from hloc.formats.to_proto import module_to_proto
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.literal import literal_of
from hloc.parser import parse
from hloc.shapes import ArrayShape, leaves
from hloc.source import SourceFile
from tests.inputs import inputs_for

TOKEN = re.compile(r"[A-Za-z0-9_.%\-]+|\s+|.")
FOREIGN = (
    "{", "}", "(", ")", "[", "]", ",", "=", "->", '"', "'", "/*", "*/", "//", ":", "?", "<=",
    "-0", "1e999", "nan(0x1)", "f32[2]", "token[]", "(f32[], s32[])", "ROOT", "ENTRY", "%x",
    "HloModule m", "constant(1)", "parameter(0)", "to_apply={a = f32[] parameter(0)}",
    "sharding={devices=[2]<=[2]}", "index=9", 'metadata={op_name="a\\q"}', "mesh['x'=2]",
    "99999999999999999999", "negate-start(x)", "\0", "\ud800",
)  # fmt: skip
STYLES = ("default", "short", "canonical")
TUPLE_STYLES: tuple[str, ...] = ("full", "compact")

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"

Damage = Iterable[tuple[int, int, int]]
"""(kind, place, other place), each place taken modulo the number of tokens or bytes."""


def damaged(text: str, damage: Damage) -> str:
    """Return `text` after each change of its tokens."""
    tokens = TOKEN.findall(text)
    for kind, place, other in damage:
        if not tokens:
            break
        at, there = place % len(tokens), other % len(tokens)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(there, tokens[at])
        elif kind == 2:
            tokens[at], tokens[there] = tokens[there], tokens[at]
        elif kind == 3:
            tokens[at] = FOREIGN[other % len(FOREIGN)]
        else:
            tokens = tokens[: at + 1]
    return "".join(tokens)


def damaged_bytes(data: bytes, damage: Damage) -> bytes:
    """Return `data` after each change of its bytes."""
    found = bytearray(data)
    for kind, place, other in damage:
        if not found:
            break
        at = place % len(found)
        if kind == 0:
            del found[at : at + 1 + other % 4]
        elif kind == 1:
            found[at:at] = found[at : at + 1 + other % 16]
        elif kind == 2:
            found[at] ^= 1 << other % 8
        elif kind == 3:
            found[at] = other % 256
        else:
            del found[at:]
    return bytes(found)


def read_and_print(text: str) -> None:
    """Do all the front end does; every fault must be an `HloError` that can be shown."""
    try:
        module = parse(SourceFile(text), verify=False)
    except HloError as error:
        error.__str__()
        return
    tuple_styles = TUPLE_STYLES
    try:
        verify(module)
    except HloError as error:
        error.__str__()
        tuple_styles = ("full",)  # `t#14` of a tuple without such an element cannot be read
    for style in STYLES:
        printed = module.to_text(style, large_constants=True)
        if style != "canonical":  # which is for comparing, and is not read
            parse(SourceFile(printed), verify=False)
    # Computations, dead code and stack frames come in the order of first uses, which printing may
    # change once.
    for tuples in tuple_styles:
        printed = module.to_text(large_constants=True, tuple_style=tuples)
        again = parse(SourceFile(printed), verify=False)
        assert _lines(again.to_text(large_constants=True, tuple_style=tuples)) == _lines(printed)


# Damage can leave two frames of one place: the numbers in every table may then change once.
_FRAME_NUMBER = re.compile(r"^\d+(?= [{\"])|(?<=_id=)\d+")


def _lines(text: str) -> list[str]:
    return sorted(_FRAME_NUMBER.sub("", line) for line in text.splitlines())


def read_bytes(data: bytes) -> None:
    """Read a file in any format; every fault must be an `HloError` that can be shown."""
    try:
        found = read_snapshot(data, "file.pb")
    except HloError as error:
        error.__str__()
        return
    found.module.to_text(large_constants=True)


# ---------------------------------------------------------------- what is damaged


@cache
def texts() -> tuple[str, ...]:
    """Return the modules of the golden tests, wrong ones too."""
    files = sorted(path for path in GOLDEN.rglob("*") if path.suffix in (".hlo", ".txt", ""))
    found = []
    for path in files:
        if path.is_file():
            for block in path.read_text(errors="replace").split("// -----\n"):
                text = block.partition("// EXPECT\n")[0]
                found.append("".join(f"{line}\n" for line in _body(text)))
    return tuple(text for text in found if text)


def _body(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if not line.startswith("// "))


@cache
def protos() -> tuple[bytes, ...]:
    """Return modules that the verifier accepts as HloModuleProto, HloProto and HloSnapshot."""
    found = []
    for text in texts():
        try:
            module = parse(SourceFile(text))
            proto = module_to_proto(module)
        except HloError:
            continue
        snapshot = message_class("HloSnapshot")()
        snapshot.hlo.hlo_module.CopyFrom(proto)
        for array in inputs_for(module) if has_small_inputs(module) else ():
            fill_literal(snapshot.arguments.add(), literal_of(array))
        found += [p.SerializeToString() for p in (proto, snapshot.hlo, snapshot)]
    return tuple(found)


def has_small_inputs(module: Module) -> bool:
    """True if arrays of a few kilobytes stand for the parameters."""
    shapes = [leaf for p in module.entry.parameters for _, leaf in leaves(p.shape)]
    plain = all(isinstance(s, ArrayShape) and min(s.dims, default=0) >= 0 for s in shapes)
    return plain and sum(shape.size_bytes for shape in shapes) < 4096


def random_damage(choices: random.Random) -> list[tuple[int, int, int]]:
    """Return one to four changes."""
    return [
        (choices.randrange(5), choices.randrange(10**6), choices.randrange(10**6))
        for _ in range(choices.randint(1, 4))
    ]


def damaged_text(seed: int) -> str:
    """Return the damaged text of `seed`."""
    choices = random.Random(seed)
    return damaged(choices.choice(texts()), random_damage(choices))


def damaged_proto(seed: int) -> bytes:
    """Return the damaged proto or snapshot of `seed`."""
    choices = random.Random(seed)
    return damaged_bytes(choices.choice(protos()), random_damage(choices))


CHECKS: dict[str, Callable[[int], None]] = {
    "texts": lambda seed: read_and_print(damaged_text(seed)),
    "protos": lambda seed: read_bytes(damaged_proto(seed)),
}
"""Each reads the damaged input of a seed."""
