"""The server as a process that an editor drives, and its answers in the words of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

pytest.importorskip("pygls")

from lsprotocol import types

from hloc.cli import main
from hloc.lsp import features
from hloc.lsp.open_text import OpenText
from tests.unit.lsp import editor
from tests.unit.lsp.test_features import MODULE

BROKEN = MODULE.replace("tanh(", "tahn(")


def drive(work: Callable[[editor.Editor], Awaitable[None]], capabilities: Any = None) -> None:
    async def session() -> None:
        async with editor.editor(capabilities) as client:
            await work(client)

    asyncio.run(session())


def test_a_fault_is_reported_corrected_and_gone() -> None:
    async def work(client: editor.Editor) -> None:
        client.open(BROKEN)
        (fault,) = await client.faults()
        assert (fault.code, fault.source) == ("HLOC0104", "hloc")
        assert fault.message == "unknown opcode: tahn; did you mean tanh?"
        (action,) = await client.text_document_code_action_async(
            types.CodeActionParams(
                text_document=editor.THIS,
                range=fault.range,
                context=types.CodeActionContext([fault]),
            )
        )
        (edit,) = action.edit.changes[editor.URI]
        here = edit.range
        client.replace(here.start.line, here.start.character, here.end.character, edit.new_text)
        assert await client.faults() == []
        found = await client.text_document_hover_async(types.HoverParams(editor.THIS, editor.X))
        assert "tanh(p)" in found.contents.value
        with pytest.raises(Exception, match="'p' is the name of another"):
            await client.text_document_rename_async(
                types.RenameParams(text_document=editor.THIS, position=editor.X, new_name="p")
            )
        for _ in range(3):  # three keys in a row: what is told last is of the last
            client.replace(11, 2, 2, "/**/")
        assert await client.faults() == []

    drive(work)


@pytest.mark.slow
def test_commands_of_lenses_write_files_that_the_editor_shows() -> None:
    async def work(client: editor.Editor) -> None:
        client.open(MODULE)
        lenses = await client.text_document_code_lens_async(types.CodeLensParams(editor.THIS))
        for lens in lenses:
            command = lens.command
            await client.workspace_execute_command_async(
                types.ExecuteCommandParams(command.command, command.arguments)
            )
        shown = [Path(urlparse(params.uri).path) for params in client.shown]
        assert [path.name for path in shown] == ["m.run.txt", "m.graph.html", "m.passes.txt"]
        assert [params.external for params in client.shown] == [False, True, False]
        run, graph, passes = (path.read_text() for path in shown)
        assert "out0 = f32[2] {" in run
        assert graph.startswith("<!doctype html>")
        assert "fusion: kernels 2 -> 1" in passes
        client.open(BROKEN)
        await client.faults()
        await client.workspace_execute_command_async(
            types.ExecuteCommandParams("hloc.run", [editor.URI, 0])
        )
        assert client.messages[0].startswith("<stdin>:12:22: error[HLOC0104]: unknown opcode")

    shows = types.ShowDocumentClientCapabilities(support=True)
    window = types.WindowClientCapabilities(show_document=shows)
    drive(work, types.ClientCapabilities(window=window))


@pytest.mark.slow
def test_texts_that_are_closed_or_unknown_are_answered_with_nothing() -> None:
    async def work(client: editor.Editor) -> None:
        other = types.TextDocumentIdentifier("file:///nowhere.hlo")
        assert await client.text_document_hover_async(types.HoverParams(other, editor.X)) is None
        client.open(BROKEN)
        assert len(await client.faults()) == 1
        client.text_document_did_close(types.DidCloseTextDocumentParams(editor.THIS))
        assert (
            await client.text_document_hover_async(types.HoverParams(editor.THIS, editor.X)) is None
        )
        client.open("\0\x7fELF")
        assert [fault.code for fault in await client.faults()] == ["HLOC0112"]

    drive(work)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_columns_are_in_the_encoding_that_the_editor_asks_for(encoding: Any) -> None:
    async def work(client: editor.Editor) -> None:
        client.open(f"// \U0001f600\n{BROKEN}".replace("%x = ", "/*\U0001f600*/ %x = "))
        (fault,) = await client.faults()
        extra = {"utf-8": 4, "utf-16": 2, "utf-32": 1}[encoding]
        assert fault.range.start == types.Position(12, 26 + extra)

    general = types.GeneralClientCapabilities(position_encodings=[encoding])
    drive(work, types.ClientCapabilities(general=general))


# ---------------------------------------------------------------- answers


def answer(method: str, text: str, **parameters: Any) -> Any:
    """Return the answer to a request about `text`, without a server."""
    (found,) = (row.answer for row in features.FEATURES if row.method == method)
    kind = types.METHOD_TO_TYPES[method][0].__annotations__["params"]
    return found(OpenText(text), kind(text_document=editor.THIS, **parameters))


def applied(text: str, edits: list[types.TextEdit]) -> str:
    positions = OpenText(text).positions
    for edit in reversed(edits):
        start, end = (
            positions.offset(features.position_of(place))
            for place in (edit.range.start, edit.range.end)
        )
        text = text[:start] + edit.new_text + text[end:]
    return text


@pytest.mark.parametrize(
    ("good", "ugly"),
    [
        ("  %zero = f32", "%zero   =  f32"),
        ("HloModule m\n", "\n\nHloModule   m\n"),
        ("to_apply=%add\n}\n", "to_apply=%add }"),
        ("tanh(%p)", "tanh(%p)"),
    ],
)
def test_formatting_changes_what_hloc_fmt_changes(good: str, ugly: str) -> None:
    text = MODULE.replace(good, ugly)
    edits = answer(types.TEXT_DOCUMENT_FORMATTING, text, options=types.FormattingOptions(2, True))
    assert len(edits) == (good != ugly)
    assert applied(text, edits) == MODULE
    if edits:
        assert edits[0].range.end.line - edits[0].range.start.line < 4  # the rest stays
    broken = answer(types.TEXT_DOCUMENT_FORMATTING, "f {", options=types.FormattingOptions(2, True))
    assert broken == []


def test_renaming_edits_every_place() -> None:
    edit = answer(types.TEXT_DOCUMENT_RENAME, MODULE, position=editor.X, new_name="hyper")
    assert applied(MODULE, edit.changes[editor.URI]).count("%hyper") == 2
    found = answer(types.TEXT_DOCUMENT_PREPARE_RENAME, MODULE, position=editor.X)
    assert found == types.Range(editor.X, types.Position(11, 4))
    nothing = types.Position(1, 0)
    assert answer(types.TEXT_DOCUMENT_PREPARE_RENAME, MODULE, position=nothing) is None


def test_references_leave_the_definition_out_on_request() -> None:
    for declaration, count in ((True, 2), (False, 1)):
        context = types.ReferenceContext(declaration)
        found = answer(types.TEXT_DOCUMENT_REFERENCES, MODULE, position=editor.X, context=context)
        assert len(found) == count
    assert len(answer(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, MODULE, position=editor.X)) == 2
    found = answer(types.TEXT_DOCUMENT_DEFINITION, MODULE, position=types.Position(12, 30))
    assert found.range.start == types.Position(11, 2)


def test_tokens_are_counted_from_the_one_before() -> None:
    for method, parameters in (
        (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, {}),
        (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, {"range": editor.WHOLE}),
    ):
        numbers = answer(method, MODULE, **parameters).data
        lines = MODULE.split("\n")
        line = column = 0
        words: dict[str, str] = {}
        for down, right, length, colour, _ in zip(*[iter(numbers)] * 5, strict=True):
            line, column = line + down, right + (0 if down else column)
            word = lines[line][column : column + length]
            words[word] = features.LEGEND.token_types[colour]
        assert words["tanh"] == "method"
        assert words["to_apply"] == "property"
        assert words["%main"] == "function"


def test_several_modules_in_one_text_are_kept_apart() -> None:
    text = f"{MODULE}// -----\n{BROKEN}"
    (fault,) = features.diagnostics(OpenText(text))
    shift = MODULE.count("\n") + 1
    assert fault.range.start == types.Position(11 + shift, 21)
    found = answer(types.TEXT_DOCUMENT_DEFINITION, text, position=types.Position(12 + shift, 50))
    assert found is None or found.range.start.line > shift
    symbols = answer(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, text)
    assert [symbol.name for symbol in symbols] == ["add", "main"] * 2
    assert symbols[2].selection_range.start.line == 2 + shift
    lenses = answer(types.TEXT_DOCUMENT_CODE_LENS, text)
    assert [lens.command.arguments for lens in lenses] == [[editor.URI, 0]] * 3 + [
        [editor.URI, 1]
    ] * 3
    folds = answer(types.TEXT_DOCUMENT_FOLDING_RANGE, text)
    assert [fold.start_line for fold in folds] == [2, 8, 2 + shift, 8 + shift]


def test_hints_and_completions_have_places() -> None:
    text = MODULE.replace("f32[2,3]{1,0} tanh", "tanh")
    (hint,) = answer(types.TEXT_DOCUMENT_INLAY_HINT, text, range=editor.WHOLE)
    assert (hint.position, hint.label) == (types.Position(11, 7), "f32[2,3]")
    found = answer(types.TEXT_DOCUMENT_COMPLETION, text, position=types.Position(11, 9))
    (item,) = (item for item in found.items if item.label == "tanh")
    assert item.text_edit.range.start == types.Position(11, 7)
    assert item.detail == "tanh(x)"


def test_a_fix_is_offered_where_it_is_asked_for() -> None:
    only = types.CodeActionContext([], only=[types.CodeActionKind.Refactor])
    for lines, context, count in (
        ((11, 11), types.CodeActionContext([]), 1),
        ((2, 3), types.CodeActionContext([]), 0),
        ((11, 11), only, 0),
    ):
        here = types.Range(types.Position(lines[0], 0), types.Position(lines[1], 99))
        found = answer(types.TEXT_DOCUMENT_CODE_ACTION, BROKEN, range=here, context=context)
        assert len(found) == count


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hloc.cli.lsp_command.find_spec", lambda name: None)
    assert main(["lsp"]) == 1
    assert "needs the package pygls\nnote: pip install 'hloc[lsp]'" in capsys.readouterr().err
    assert main(["lsp", "m.hlo"]) == 2
    assert "the editor sends the texts" in capsys.readouterr().err
