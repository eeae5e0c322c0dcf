"""Random modules, right and then damaged: the front end gives a module or a diagnostic.

Modules come from the builder, so they are right and print; a print reads back to the same print.
Damage is done to tokens: one is deleted, doubled, exchanged with another or with a foreign one, or
the text is cut off. Then hloc may refuse the text, but only with an `HloError`.
"""

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hloc.errors import HloError
from hloc.ir.verifier import verify
from hloc.parser import parse
from hloc.source import SourceFile
from tests.unit.opt.random_modules import RandomModule
from tests.unit.parser.test_golden import GOLDEN, cases

TOKEN = re.compile(r"[A-Za-z0-9_.%\-]+|\s+|.")
FOREIGN = (
    "{", "}", "(", ")", "[", "]", ",", "=", "->", '"', "'", "/*", "*/", "//", ":", "?", "<=",
    "-0", "1e999", "nan(0x1)", "f32[2]", "token[]", "(f32[], s32[])", "ROOT", "ENTRY", "%x",
    "HloModule m", "constant(1)", "parameter(0)", "to_apply={a = f32[] parameter(0)}",
    "sharding={devices=[2]<=[2]}", "index=9", 'metadata={op_name="a\\q"}', "mesh['x'=2]",
    "99999999999999999999", "negate-start(x)", "\0", "\ud800",
)  # fmt: skip
STYLES = ("default", "short", "canonical")
TUPLE_STYLES = ("full", "compact")

SEEDS = [
    text for folder in ("parser", "parser_2026", "opt")
    for path in sorted((GOLDEN / folder).iterdir()) for _, text, _ in cases(path)
]  # fmt: skip


Damage = list[tuple[int, int, int]]


def read_and_print(text: str) -> None:
    """Do all the front end does; every fault must be an `HloError` that can be shown."""
    try:
        module = parse(SourceFile(text), verify=False)
    except HloError as error:
        error.__str__()
        return
    try:
        verify(module)
    except HloError as error:
        error.__str__()
    for style in STYLES:
        module.to_text(style, large_constants=True)
    # With `%`, without which a name that is a keyword (`%ROOT`) cannot be read.
    for tuple_style in TUPLE_STYLES:
        printed = module.to_text(large_constants=True, tuple_style=tuple_style)
        again = parse(SourceFile(printed), verify=False)
        assert again.to_text(large_constants=True, tuple_style=tuple_style) == printed


def damaged(text: str, damage: Damage) -> str:
    """Return `text` after each (kind, place, other place), taken modulo what there is."""
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


DAMAGE = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 10**6), st.integers(0, 10**6)), max_size=4
)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(12, 40))
def test_a_random_module_reads_back_as_it_was(seed: int, steps: int) -> None:
    module = RandomModule(seed).grown(steps)
    verify(module)
    # A pad without dimensions prints `padding=`, in XLA too, and that cannot be read.
    assume(not any(i.is_a("pad") and not i.array.dims for i in module.entry.instructions))
    for style in ("default", "short"):
        text = module.to_text(style, large_constants=True)
        assert parse(SourceFile(text)).to_text(style, large_constants=True) == text


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), DAMAGE)
def test_a_damaged_random_module_is_read_or_refused(
    seed: int, damage: list[tuple[int, int, int]]
) -> None:
    read_and_print(damaged(RandomModule(seed).grown(16).to_text(), damage))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SEEDS), DAMAGE)
def test_damaged_golden_modules_are_read_or_refused(
    text: str, damage: list[tuple[int, int, int]]
) -> None:
    read_and_print(damaged(text, damage))


@pytest.mark.slow
@settings(max_examples=4000, deadline=None)
@given(st.sampled_from(SEEDS), DAMAGE)
def test_many_damaged_modules_are_read_or_refused(
    text: str, damage: list[tuple[int, int, int]]
) -> None:
    read_and_print(damaged(text, damage))
