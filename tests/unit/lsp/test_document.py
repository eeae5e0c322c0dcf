"""Reading while a text is edited: the faults of the whole, and no more work than an edit needs."""

import pytest

from hloc.lsp import document, parts
from hloc.lsp.document import Document, read_document
from hloc.lsp.hover import hover
from hloc.lsp.positions import Change, Encoding, Position, Positions, changed
from hloc.source import SourceFile
from tests.unit.parser.two_ways import SMALL_BYTES, own_texts


def module_of(computations: int) -> str:
    """Return a module whose entry calls `computations` others, each of a few instructions."""
    bodies = [
        f"%f{n} (p: f32[4]) -> f32[4] {{\n  %p.{n} = f32[4] parameter(0)\n"
        f"  %t.{n} = f32[4] tanh(%p.{n})\n  ROOT %r.{n} = f32[4] negate(%t.{n})\n}}\n"
        for n in range(computations)
    ]
    calls = [
        f"  %c{n} = f32[4] call(%{f'c{n - 1}' if n else 'a'}), to_apply=%f{n}"
        for n in range(computations)
    ]
    entry = ["ENTRY %main (a: f32[4]) -> f32[4] {", "  %a = f32[4] parameter(0)", *calls]
    entry += [f"  ROOT %out = f32[4] negate(%c{computations - 1})", "}\n"]
    return "\n".join(["HloModule m\n", *bodies, "\n".join(entry)])


TEXT = module_of(12)


def read(text: str, before: Document | None = None) -> Document:
    return read_document(SourceFile(text, "m.hlo"), before)


@pytest.fixture(autouse=True)
def _every_text_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "SMALL", 0)


EDITS = {
    "nothing": (TEXT, 0, []),
    "an opcode": (TEXT.replace("tanh(%p.3)", "sine(%p.3)"), 2, []),
    "a comment above all": (TEXT.replace("%f0 (", "// a line more\n%f0 (", 1), 13, []),
    "a wrong opcode": (TEXT.replace("tanh(%p.3)", "tahn(%p.3)"), 2, ["HLOC0104"]),
    "a wrong shape": (TEXT.replace("f32[4] tanh(%p.3)", "f32[5] tanh(%p.3)"), 2, ["HLOC0312"]),
    "another signature": (
        TEXT.replace("%f3 (p: f32[4])", "%f3 (p: f32[5])").replace(
            "%p.3 = f32[4]", "%p.3 = f32[5]"
        ),
        2,
        ["HLOC0312"],
    ),
    "no brace": (TEXT.replace("negate(%t.3)\n}", "negate(%t.3)\n"), None, ["HLOC0101"]),
}


@pytest.mark.parametrize("case", EDITS)
def test_an_edit_reads_what_it_changed(case: str) -> None:
    text, count, codes = EDITS[case]
    after = read(text, read(TEXT))
    assert (
        {fault.code for fault in after.faults()} >= set(codes) if codes else not [*after.faults()]
    )
    if count is not None:
        assert after.parts_read == count


def test_a_long_callee_of_the_same_shapes_leaves_its_caller_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "_SHORT", 0)
    after = read(TEXT.replace("tanh(%p.3)", "sine(%p.3)"), read(TEXT))
    assert after.parts_read == 1
    assert list(after.faults()) == []


def test_faults_move_with_the_text_above_them() -> None:
    broken = TEXT.replace("tanh(%p.7)", "tahn(%p.7)")
    first = read(broken, read(TEXT))
    moved = read(broken.replace("%t.2 = f32[4] tanh", "%t.2 =   f32[4] tanh"), first)
    assert [moved.text[f.start : f.end] for f in moved.faults()] == ["tahn"]
    assert moved.parts_read == 2  # the edited one and its caller


def test_a_fault_of_a_callee_is_not_reported_for_its_callers() -> None:
    after = read(TEXT.replace("tanh(%p.3)", "tahn(%p.3)"), read(TEXT))
    assert [fault.code for fault in after.faults()] == ["HLOC0104"]


def test_hover_knows_parts_that_were_not_read_again() -> None:
    before = read(TEXT)
    after = read(TEXT.replace("tanh(%p.3)", "sine(%p.3)"), before)
    for name, words in (("%t.9 =", "tanh(p.9)"), ("%t.3 =", "sine(p.3)")):
        found = hover(after, after.text.index(name) + 2)
        assert found is not None
        assert words in found.text
    call = hover(after, after.text.index("%c3 =") + 1)
    assert call is not None
    assert "elementary functions: 4" in call.text


def test_reading_part_by_part_finds_the_faults_of_the_whole() -> None:
    compared = 0
    for text in own_texts()[::4]:
        if "// -----" in text or len(text) > SMALL_BYTES:
            continue
        whole = read(text)
        if not whole.parts:
            continue
        fresh = Document(whole.source, tuple(parts.split_parts(text)))
        alone = document._read_parts(fresh, {})
        faults = [fault for part in whole.parts for fault in part.faults]
        assert [fault for part in alone.parts for fault in part.faults] == faults, text
        compared += 1
    assert compared > 200


def test_a_computation_that_comes_or_goes_is_noticed() -> None:
    twice = TEXT.replace("%f4 (", "%f3 (", 1)
    assert "HLOC0108" in {fault.code for fault in read(twice, read(TEXT)).faults()}
    start, end = TEXT.index("%f4 ("), TEXT.index("%f5 (")
    after = read(TEXT[:start] + TEXT[end:], read(TEXT))
    assert [fault.code for fault in after.faults()] == ["HLOC0107"]
    assert list(read(TEXT, after).faults()) == []


def test_what_can_be_read_of_a_faulty_computation_is_known() -> None:
    after = read(TEXT.replace("tanh(%p.3)", "tahn(%p.3)"), read(TEXT))
    part = after.by_name["f3"]
    assert part.computation is None
    assert list(part.by_name) == ["p.3"]
    assert [name for name in after.by_name["main"].by_name if name.startswith("c")][:2] == [
        "c0",
        "c1",
    ]


# ---------------------------------------------------------------- lines and columns

TEXTS = ["", "a", "a\nb", "é\n\U0001f600x\n", "a\r\nb\n", "a\rb\r", "\u2028\x0c\n\x85a"]
ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", TEXTS)
def test_positions_and_offsets_are_inverse(text: str, encoding: Encoding) -> None:
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] != "\r\n":
            assert positions.offset(positions.position(offset)) == offset


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", TEXTS)
def test_every_change_of_a_text_is_made(text: str, encoding: Encoding) -> None:
    positions = Positions(text, encoding)
    for start in range(len(text) + 1):
        for end in range(start, len(text) + 1):
            if "\r\n" in (text[start - 1 : start + 1], text[end - 1 : end + 1]):
                continue  # no editor stands between the two
            for new in ("", "x", "\n", "x\r\ny", "\r"):
                change = Change(new, positions.position(start), positions.position(end))
                assert changed(text, [change], encoding) == text[:start] + new + text[end:]


def test_changes_are_made_one_after_the_other() -> None:
    first = Change("xy", Position(0, 0), Position(0, 1))
    second = Change("\n", Position(0, 1), Position(0, 2))
    assert changed("ab\n", [first, second]) == "x\nb\n"
    assert changed("ab\n", [first, Change("all")]) == "all"
    assert changed("ab", [Change("c", Position(7, 0), Position(9, 9))]) == "abc"


def test_columns_are_units_of_the_encoding() -> None:
    text = "ab\n\U0001f600x"
    for encoding, column in zip(ENCODINGS, (5, 3, 2), strict=True):
        positions = Positions(text, encoding)
        assert positions.position(5) == (1, column)
        assert positions.offset(Position(1, column - 1)) == 4
        assert positions.offset(Position(0, 99)) == 2
        assert positions.offset(Position(99, 0)) == 5
