"""The language server: open texts, requests, diagnostics."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from hloc import __version__
from hloc.errors import HloError
from hloc.lsp.commands import COMMANDS, Results
from hloc.lsp.features import FEATURES, Answer, diagnostics, position_of
from hloc.lsp.open_text import OpenText
from hloc.lsp.positions import Change

DELAY_SECONDS = 0.05
"""Seconds without a keystroke after which diagnostics are computed."""


class _Protocol(LanguageServerProtocol):
    """Bypasses the texts of pygls, whose line ends differ from those of editors."""

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.change(params)


class HlocServer(LanguageServer):
    """One client and its open texts, by URI."""

    def __init__(self) -> None:
        super().__init__("hloc", __version__, protocol_cls=_Protocol)
        self.texts: dict[str, OpenText] = {}
        self.results = Results()
        self._versions: dict[str, int | None] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self.was_shut_down = False
        self._register()

    def _register(self) -> None:
        own: tuple[tuple[str, Callable[[Any], None], object], ...] = (
            (types.TEXT_DOCUMENT_DID_OPEN, self._open, None),
            (types.TEXT_DOCUMENT_DID_SAVE, self._saved, types.SaveOptions(include_text=False)),
            (types.TEXT_DOCUMENT_DID_CLOSE, self._close, None),
            (types.SHUTDOWN, self._shut_down, None),
        )
        for method, handle, options in own:
            self.feature(method, options)(partial(handle))  # pygls sets attributes on it
        for feature in FEATURES:
            self.feature(feature.method, feature.options)(self._handler(feature.answer))
        for name in COMMANDS:
            self.command(name)(self._command(name))

    # ---- texts

    def _open(self, params: types.DidOpenTextDocumentParams) -> None:
        found = params.text_document
        encoding = self.server_capabilities.position_encoding
        self.texts[found.uri] = OpenText(found.text, _name_of(found.uri), encoding or "utf-16")
        self._versions[found.uri] = found.version
        self._tell_faults(found.uri)

    def change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Apply changes of a text; its diagnostics are reported when no other change follows."""
        uri = params.text_document.uri
        text = self.texts.get(uri)
        if text is None:
            return
        text.change(_change(change) for change in params.content_changes)
        self._versions[uri] = params.text_document.version
        if waiting := self._waiting.pop(uri, None):
            waiting.cancel()
        loop = asyncio.get_running_loop()
        self._waiting[uri] = loop.call_later(DELAY_SECONDS, self._tell_faults, uri)

    def _saved(self, params: types.DidSaveTextDocumentParams) -> None:
        text = self.texts.get(params.text_document.uri)
        if text is not None:
            text.read_as_a_whole()
            self._tell_faults(params.text_document.uri)

    def _close(self, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        self.texts.pop(uri, None)
        if waiting := self._waiting.pop(uri, None):
            waiting.cancel()
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _shut_down(self, _: object) -> None:
        self.was_shut_down = True

    def _tell_faults(self, uri: str) -> None:
        text = self.texts.get(uri)
        if text is not None:
            found = types.PublishDiagnosticsParams(uri, diagnostics(text), self._versions.get(uri))
            self.text_document_publish_diagnostics(found)

    # ---- requests

    def _handler(self, answer: Answer) -> Callable[[Any], Any]:
        def handle(params: Any) -> Any:
            text = self.texts.get(params.text_document.uri)
            if text is None:
                return None
            try:
                return answer(text, params)
            except HloError as error:  # the request cannot be fulfilled
                raise JsonRpcInvalidParams(message=error.message) from None

        return handle

    def _command(self, name: str) -> Callable[[str, int], Any]:
        async def carry_out(uri: str, number: int) -> None:
            text = self.texts.get(uri)
            if text is None or not 0 <= number < len(text.documents):
                return
            document = text.documents[number].document
            outcome = await self.results.produce(name, document.text, Path(_name_of(uri)).stem)
            if outcome.fault:
                self._say(types.MessageType.Error, outcome.fault)
            if outcome.path is not None:
                await self._show(outcome.path, external=outcome.path.suffix == ".html")

        return carry_out

    async def _show(self, path: Path, external: bool) -> None:
        window = self.client_capabilities.window
        if window is not None and window.show_document and window.show_document.support:
            params = types.ShowDocumentParams(path.as_uri(), external=external)
            if (await self.window_show_document_async(params)).success:
                return
        self._say(types.MessageType.Info, f"written to {path}")

    def _say(self, kind: types.MessageType, message: str) -> None:
        self.window_show_message(types.ShowMessageParams(kind, message))

    def shutdown(self) -> None:
        """Stop the server and remove the files that it wrote."""
        self.results.remove()
        super().shutdown()


def serve() -> bool:
    """Serve one client on stdin and stdout until it exits.

    Returns:
        Whether the client requested the shutdown first.
    """
    logging.basicConfig(level=logging.ERROR, format="hloc lsp: %(message)s")
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # errors go to the client
    if sys.stdin.isatty():
        sys.stderr.write("hloc lsp: waiting for an editor on stdin (docs/editors.md)\n")
    server = HlocServer()
    # pygls closes its output; and nothing else may be written there.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as protocol, redirect_stdout(sys.stderr):
        server.start_io(stdout=protocol)
    return server.was_shut_down


def _change(change: Any) -> Change:
    if not isinstance(change, types.TextDocumentContentChangePartial):
        return Change(change.text)
    return Change(change.text, position_of(change.range.start), position_of(change.range.end))


def _name_of(uri: str) -> str:
    """Return the name for messages: the file name without folders."""
    return Path(unquote(urlparse(uri).path)).name or uri
