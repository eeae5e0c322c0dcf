"""Random modules, right and then damaged: the front end gives a module or a diagnostic.

Modules come from the builder, so they are right and print; a print reads back to the same print.
Damage is done by `fuzz/damage.py`. Then hloc may refuse the text, but only with an `HloError`.
"""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fuzz.damage import damaged, read_and_print, texts
from hloc.ir.verifier import verify
from hloc.parser import parse
from hloc.source import SourceFile
from tests.unit.opt.random_modules import RandomModule

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
@given(st.sampled_from(texts()), DAMAGE)
def test_damaged_golden_modules_are_read_or_refused(
    text: str, damage: list[tuple[int, int, int]]
) -> None:
    read_and_print(damaged(text, damage))


@pytest.mark.slow
@settings(max_examples=4000, deadline=None)
@given(st.sampled_from(texts()), DAMAGE)
def test_many_damaged_modules_are_read_or_refused(
    text: str, damage: list[tuple[int, int, int]]
) -> None:
    read_and_print(damaged(text, damage))
