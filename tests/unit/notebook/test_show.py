"""`hloc.show`: the module, each pass with its diff, times; names as HTML; without jax."""

import sys

import pytest

import hloc
from tests.unit.notebook.test_drawings import HOSTILE, drawn, hostile
from tests.unit.notebook.test_magics import TEXT


def test_text_has_the_module_the_passes_and_their_times() -> None:
    text = str(hloc.show(hloc.parse(TEXT), passes="algsimp,dce"))
    assert text.startswith("module m  4 instructions / 1 computation")
    assert "b = f32[4]{0} negate(a)" in text
    (row,) = (line for line in text.splitlines() if line.startswith("algebraic-simplifier"))
    assert "kernels 3 → 1" in row
    assert [line.split()[0] for line in text.splitlines()[-3:-1]] == ["s0", "s1"]


def test_a_notebook_has_a_row_for_each_pass_that_opens_to_its_diff() -> None:
    report = hloc.show(TEXT, passes="algsimp,cse,dce", run=False)
    assert len(report.passes) == 1, "cse and dce change nothing"
    assert report.times == ""
    found = drawn(report)
    assert found.tags.count("details") == 3
    assert "negate-negate" in found.text
    assert report.after.instruction_count == 2
    assert report.before.instruction_count == 4


def test_names_cannot_become_markup() -> None:
    found = drawn(hloc.show(hostile(), passes="algsimp", run=False))
    assert not {"img", "script", "iframe"} & set(found.tags)
    assert HOSTILE in found.text


def test_what_cannot_run_is_shown_and_says_why() -> None:
    text = TEXT.replace("exponential(b)", 'custom-call(b), custom_call_target="nobody"')
    report = hloc.show(text, passes="algsimp")
    assert report.passes
    assert report.times.startswith("not run: ")


def test_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(hloc.HloError, match="there is no pass 'nope'"):
        hloc.show(TEXT, passes="nope")
    with pytest.raises(hloc.HloError, match=r"the argument of hloc.show is no module, but .* int"):
        hloc.show(3)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(hloc.HloError, match=r"hloc\.show needs the package jax"):
        hloc.show(lambda x: x, 1)


@pytest.mark.jax
def test_a_jax_function() -> None:
    jnp = pytest.importorskip("jax.numpy")
    pytest.importorskip("google.protobuf")
    report = hloc.show(lambda x, w: jnp.exp(-x) @ w, jnp.ones((4, 8)), w=jnp.ones((8, 2)))
    assert "dot(" in str(report.before)
    assert "s0" in report.times
