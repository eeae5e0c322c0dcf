"""An editor for tests: pygls' client, which starts `hloc lsp` and keeps what it is told."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from hloc.python_process import python_environment

URI = "file:///somewhere/m.hlo"
THIS = types.TextDocumentIdentifier(URI)
WHOLE = types.Range(types.Position(0, 0), types.Position(10_000, 0))
X = types.Position(11, 3)
"""A place in the name `%x` of test_features.MODULE."""
PATIENCE_SECONDS = 120.0
"""A bound for a machine under load, not a measurement."""


class Editor(LanguageClient):
    """A client with one text."""

    def __init__(self) -> None:
        super().__init__("editor", "1")
        self.version = 0
        self.shown: list[types.ShowDocumentParams] = []
        self.messages: list[str] = []
        self._faults: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(self._faults.put_nowait))
        self.feature(types.WINDOW_SHOW_MESSAGE)(partial(self._message))
        self.feature(types.WINDOW_SHOW_DOCUMENT)(partial(self._show))

    def _message(self, params: types.ShowMessageParams) -> None:
        self.messages.append(params.message)

    def _show(self, params: types.ShowDocumentParams) -> types.ShowDocumentResult:
        self.shown.append(params)
        return types.ShowDocumentResult(success=True)

    def open(self, text: str) -> None:
        self.version += 1
        item = types.TextDocumentItem(URI, "hlo", self.version, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def replace(self, line: int, start: int, end: int, text: str) -> None:
        """Replace columns of a line."""
        self.version += 1
        here = types.Range(types.Position(line, start), types.Position(line, end))
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, URI),
                [types.TextDocumentContentChangePartial(here, text)],
            )
        )

    async def faults(self) -> list[types.Diagnostic]:
        """Return the faults of the present version, once the server has told them."""
        while True:
            told = await asyncio.wait_for(self._faults.get(), PATIENCE_SECONDS)
            if told.version == self.version:
                return list(told.diagnostics)


@asynccontextmanager
async def editor(capabilities: Any = None) -> AsyncIterator[Editor]:
    """Start the server, and end it as editors do; it must end without an error."""
    client = Editor()
    words = ("-P", "-m", "hloc", "lsp")
    await client.start_io(sys.executable, *words, env=python_environment())
    parameters = types.InitializeParams(capabilities or types.ClientCapabilities())
    client.initialized_with = await client.initialize_async(parameters)
    client.initialized(types.InitializedParams())
    yield client
    await client.shutdown_async(None)
    client.exit(None)
    process = client._server
    assert process is not None
    assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 0
    await client.stop()
