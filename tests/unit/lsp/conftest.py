"""The first test that uses the types of the protocol imports them, 0.5 s; collection does not."""

import sys
from importlib.util import find_spec

from hloc.deferred_import import defer_import

if find_spec("lsprotocol"):
    for name in ("lsprotocol.types", "hloc.lsp.features", "tests.unit.lsp.editor"):
        defer_import(name)
        # pytest asks every name of a test module for this; a deferred module would be imported.
        vars(sys.modules[name]).setdefault("__test__", False)
