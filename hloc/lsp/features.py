"""The requests of the protocol: each is a function of an open text and the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lsprotocol import types

from hloc.errors import HloError
from hloc.lsp import names, outline
from hloc.lsp.colours import COLOURS, coloured
from hloc.lsp.completion import ItemKind, complete
from hloc.lsp.fixes import fixes
from hloc.lsp.hints import shape_hints
from hloc.lsp.hover import hover
from hloc.lsp.open_text import OpenText, PlacedDocument
from hloc.lsp.parts import Fault, Range
from hloc.lsp.positions import Position
from hloc.parser.format_text import format_text
from hloc.source import SourceFile

MOST_COLOURED = 1_000_000
"""Maximum size, in characters, of a text with tokens for all of it; longer ones have them for the
visible range."""

LEGEND = types.SemanticTokensLegend(COLOURS, ("definition",))

Answer = Callable[[OpenText, Any], Any]
"""Answers a request about a text; the second argument is the parameters of the protocol."""


class Feature(NamedTuple):
    """A request that the server answers, with its options for the client."""

    method: str
    answer: Answer
    options: object = None


# ---------------------------------------------------------------- places


def position_of(position: types.Position) -> Position:
    return Position(position.line, position.character)


def _range(text: OpenText, placed: PlacedDocument, here: Range) -> types.Range:
    start, end = (text.positions.position(placed.at + offset) for offset in here)
    return types.Range(types.Position(*start), types.Position(*end))


def _within(text: OpenText, within: types.Range) -> Iterator[tuple[PlacedDocument, Range]]:
    """Yield the modules in `within`, each with the part of the range in it."""
    offsets = (text.positions.offset(position_of(end)) for end in (within.start, within.end))
    start, end = offsets
    for placed in text.documents:
        if placed.at <= end and placed.at + len(placed.document.text) >= start:
            yield placed, placed.inside(Range(start, end))


# ---------------------------------------------------------------- faults


def diagnostics(text: OpenText) -> list[types.Diagnostic]:
    """Return the diagnostics of the text, in text order."""
    return [_diagnostic(text, placed, fault) for placed, fault in text.faults()]


def _diagnostic(text: OpenText, placed: PlacedDocument, fault: Fault) -> types.Diagnostic:
    return types.Diagnostic(
        _range(text, placed, Range(fault.start, fault.end)),
        "\n".join([fault.message, *(f"note: {note}" for note in fault.notes)]),
        severity=types.DiagnosticSeverity.Error,
        code=fault.code or None,
        source="hloc",
    )


def _code_actions(text: OpenText, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Return the fixes of faults that touch the selected range."""
    only = params.context.only
    if only and not any(types.CodeActionKind.QuickFix.startswith(kind) for kind in only):
        return []
    found: list[types.CodeAction] = []
    within = {placed.at: here for placed, here in _within(text, params.range)}
    for placed, fault in text.faults():
        here = within.get(placed.at)
        if here is None or fault.start > here.end or fault.end < here.start:
            continue
        for fix in fixes(placed.document, fault):
            edit = types.TextEdit(_range(text, placed, fix.range), fix.text)
            found.append(
                types.CodeAction(
                    fix.title,
                    types.CodeActionKind.QuickFix,
                    [_diagnostic(text, placed, fault)],
                    edit=types.WorkspaceEdit({params.text_document.uri: [edit]}),
                )
            )
    return found


# ---------------------------------------------------------------- at a position


def _hover(text: OpenText, params: types.HoverParams) -> types.Hover | None:
    placed, offset = text.document_at(position_of(params.position))
    found = hover(placed.document, offset)
    if found is None:
        return None
    markdown = types.MarkupContent(types.MarkupKind.Markdown, found.text)
    return types.Hover(markdown, _range(text, placed, found.range))


def _definition(text: OpenText, params: types.DefinitionParams) -> types.Location | None:
    placed, offset = text.document_at(position_of(params.position))
    found = names.definition(placed.document, offset)
    if found is None:
        return None
    return types.Location(params.text_document.uri, _range(text, placed, found))


def _references(text: OpenText, params: types.ReferenceParams) -> list[types.Location]:
    placed, offset = text.document_at(position_of(params.position))
    found = names.references(placed.document, offset)
    if not params.context.include_declaration:
        definition = names.definition(placed.document, offset)
        found = [here for here in found if definition is None or here.end != definition.end]
    return [types.Location(params.text_document.uri, _range(text, placed, here)) for here in found]


def _highlights(
    text: OpenText, params: types.DocumentHighlightParams
) -> list[types.DocumentHighlight]:
    placed, offset = text.document_at(position_of(params.position))
    found = names.references(placed.document, offset)
    return [types.DocumentHighlight(_range(text, placed, here)) for here in found]


def _prepare_rename(text: OpenText, params: types.PrepareRenameParams) -> types.Range | None:
    placed, offset = text.document_at(position_of(params.position))
    word = names.word_at(placed.document, offset)
    if word is None or names.definition(placed.document, offset) is None:
        return None
    start = word.end - len(word.name)  # without the `%`
    return _range(text, placed, Range(start, word.end))


def _rename(text: OpenText, params: types.RenameParams) -> types.WorkspaceEdit:
    placed, offset = text.document_at(position_of(params.position))
    edits = [
        types.TextEdit(_range(text, placed, here), new)
        for here, new in names.renamed(placed.document, offset, params.new_name)
    ]
    return types.WorkspaceEdit({params.text_document.uri: edits})


_ITEM_KINDS: dict[ItemKind, types.CompletionItemKind] = {
    "opcode": types.CompletionItemKind.Function,
    "attribute": types.CompletionItemKind.Property,
    "instruction": types.CompletionItemKind.Variable,
    "computation": types.CompletionItemKind.Module,
    "value": types.CompletionItemKind.EnumMember,
}


def _completion(text: OpenText, params: types.CompletionParams) -> types.CompletionList:
    placed, offset = text.document_at(position_of(params.position))
    found = complete(placed.document, offset)
    here = _range(text, placed, found.range)
    items = [
        types.CompletionItem(
            item.label,
            kind=_ITEM_KINDS[item.kind],
            detail=item.note or None,
            sort_text=f"{number:04}",
            filter_text=item.text,
            text_edit=types.TextEdit(here, item.text),
        )
        for number, item in enumerate(found.items)
    ]
    return types.CompletionList(found.is_partial, items)


# ---------------------------------------------------------------- of the whole text


def _symbols(text: OpenText, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    def symbol(placed: PlacedDocument, found: outline.Symbol) -> types.DocumentSymbol:
        is_computation = found.name_range.start != found.range.start or bool(found.children)
        return types.DocumentSymbol(
            found.name,
            types.SymbolKind.Function if is_computation else types.SymbolKind.Variable,
            _range(text, placed, found.range),
            _range(text, placed, found.name_range),
            found.detail,
            children=[symbol(placed, child) for child in found.children],
        )

    return [
        symbol(placed, found)
        for placed in text.documents
        for found in outline.symbols(placed.document)
    ]


def _folding(text: OpenText, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    found = (
        _range(text, placed, fold)
        for placed in text.documents
        for fold in outline.folds(placed.document)
    )
    return [types.FoldingRange(fold.start.line, fold.end.line) for fold in found]


def _lenses(text: OpenText, params: types.CodeLensParams) -> list[types.CodeLens]:
    return [
        types.CodeLens(
            _range(text, placed, lens.range),
            types.Command(lens.title, lens.command, arguments=[params.text_document.uri, number]),
        )
        for number, placed in enumerate(text.documents)
        for lens in outline.lenses(placed.document)
    ]


def _hints(text: OpenText, params: types.InlayHintParams) -> list[types.InlayHint]:
    return [
        types.InlayHint(
            _range(text, placed, Range(hint.at, hint.at)).start,
            hint.text,
            types.InlayHintKind.Type,
            padding_right=True,
        )
        for placed, here in _within(text, params.range)
        for hint in shape_hints(placed.document, here)
    ]


def _all_tokens(text: OpenText, params: types.SemanticTokensParams) -> types.SemanticTokens:
    if len(text.text) > MOST_COLOURED:
        return types.SemanticTokens([])
    return _tokens(
        text, ((placed, Range(0, len(placed.document.text))) for placed in text.documents)
    )


def _tokens_in(text: OpenText, params: types.SemanticTokensRangeParams) -> types.SemanticTokens:
    return _tokens(text, _within(text, params.range))


def _tokens(text: OpenText, pieces: Iterator[tuple[PlacedDocument, Range]]) -> types.SemanticTokens:
    """Return the tokens in the form of the protocol: each relative to the one before."""
    numbers: list[int] = []
    line = column = 0
    for placed, here in pieces:
        for token in coloured(placed.document, here):
            start = text.positions.position(placed.at + token.range.start)
            length = text.positions.position(placed.at + token.range.end).column - start.column
            if start.line != line:
                column = 0
            colour = COLOURS.index(token.colour)
            numbers += [start.line - line, start.column - column, length, colour]
            numbers.append(int(token.is_definition))
            line, column = start
    return types.SemanticTokens(numbers)


def _formatting(text: OpenText, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    """Return an edit from the first to the last changed line, so that the cursor stays."""
    try:
        formatted = format_text(SourceFile(text.text))
    except HloError:
        return []  # its errors are shown already
    if formatted == text.text:
        return []
    old, new = text.text.splitlines(keepends=True), formatted.splitlines(keepends=True)
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    last = next((at for at in range(most - first) if old[-1 - at] != new[-1 - at]), most - first)
    start = sum(map(len, old[:first]))
    end = len(text.text) - sum(map(len, old[len(old) - last :]))
    here = _range(text, PlacedDocument(0, text.documents[0].document), Range(start, end))
    return [types.TextEdit(here, "".join(new[first : len(new) - last]))]


FEATURES: tuple[Feature, ...] = (
    Feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        _code_actions,
        types.CodeActionOptions([types.CodeActionKind.QuickFix]),
    ),
    Feature(types.TEXT_DOCUMENT_HOVER, _hover),
    Feature(types.TEXT_DOCUMENT_DEFINITION, _definition),
    Feature(types.TEXT_DOCUMENT_REFERENCES, _references),
    Feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlights),
    Feature(types.TEXT_DOCUMENT_PREPARE_RENAME, _prepare_rename),
    Feature(types.TEXT_DOCUMENT_RENAME, _rename, types.RenameOptions(prepare_provider=True)),
    Feature(
        types.TEXT_DOCUMENT_COMPLETION,
        _completion,
        types.CompletionOptions(trigger_characters=["%", "(", ",", "=", " "]),
    ),
    Feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols),
    Feature(types.TEXT_DOCUMENT_FOLDING_RANGE, _folding),
    Feature(types.TEXT_DOCUMENT_CODE_LENS, _lenses),
    Feature(types.TEXT_DOCUMENT_INLAY_HINT, _hints),
    Feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, _all_tokens, LEGEND),
    Feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, _tokens_in, LEGEND),
    Feature(types.TEXT_DOCUMENT_FORMATTING, _formatting),
)
"""The requests that the server answers; each row is announced to the client."""
