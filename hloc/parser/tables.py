"""Parsers generated from the grammar, with tables cached between runs.

Lark needs about 0.1 s to generate LALR tables. They are installed with hloc or kept in the cache
directory, as JSON, under a name that is a digest of all they depend on; reading JSON runs no code.
Each file begins with a digest of its name and contents: a changed file is regenerated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import lark
from lark import Lark, Transformer
from lark.grammar import Rule
from lark.lexer import TerminalDef

from hloc.cache_directory import (
    INSTALLED_FILES,
    read_cached,
    read_file,
    sealed,
    unsealed,
    write_cached,
)
from hloc.parser.grammar_file import grammar_text


def make_parser(
    starts: Sequence[str], lexer: str | type[Any], transformer: Transformer[Any, Any]
) -> Lark:
    """Return a LALR parser for the rules `starts` of `grammar/hlo.lark`.

    Args:
        starts: the rules at which a text may begin.
        lexer: a lexer of Lark by name, or a lexer class.
        transformer: callbacks that turn parsed rules into values.
    """
    name = file_name(starts, lexer)
    for contents in (read_file(INSTALLED_FILES, name), read_cached(name)):
        kept = unsealed(name, contents)
        if kept is not None:
            return _from_tables(kept, lexer, transformer)
    data = made_tables(starts, lexer)
    write_cached(name, sealed(name, data))
    return _from_tables(data, lexer, transformer)


def made_tables(starts: Sequence[str], lexer: str | type[Any]) -> bytes:
    """Return the tables that `make_parser` needs."""
    return _tables_of(
        Lark(
            grammar_text(),
            parser="lalr",
            start=list(starts),
            lexer=lexer,
            maybe_placeholders=False,
        )
    )


def file_name(starts: Sequence[str], lexer: str | type[Any]) -> str:
    """Return the name of that file."""
    parts = (grammar_text(), lark.__version__, *starts, str(lexer))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"grammar-{digest[:32]}.bin"


def _tables_of(parser: Lark) -> bytes:
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    return json.dumps([data, memo], default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    return None  # the lexer class: `_from_tables` restores it


def _from_tables(kept: bytes, lexer: str | type[Any], transformer: Transformer[Any, Any]) -> Lark:
    data, memo = json.loads(kept)
    table = data["parser"]["parser"]  # JSON has turned its numbers into strings where they are keys
    table["tokens"] = _by_number(table["tokens"])
    table["states"] = {
        state: _by_number(actions) for state, actions in _by_number(table["states"]).items()
    }
    data["options"]["lexer"] = data["parser"]["lexer_conf"]["lexer_type"] = lexer
    parser: Lark = Lark.__new__(Lark)
    parser._load({"data": data, "memo": _by_number(memo)}, transformer=transformer)
    return parser


def _by_number(table: dict[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in table.items()}
