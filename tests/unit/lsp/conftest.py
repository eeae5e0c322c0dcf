"""The first test that uses the types of the protocol imports them, 0.5 s; collection does not."""

from importlib.util import find_spec

from hloc.deferred_import import defer_import

if find_spec("lsprotocol"):
    for module in ("lsprotocol.types", "hloc.lsp.features", "tests.unit.lsp.editor"):
        defer_import(module)
