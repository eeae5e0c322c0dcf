"""MLIR locations as HLO metadata: the name of the operation, file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hloc.ir.attributes import Metadata
from hloc.stablehlo.cursor import unescaped

_NAMED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*(?:\((.*)\))?\s*', re.DOTALL)
_FILE = re.compile(r'\s*"((?:[^"\\]|\\.)*)":(\d+):(\d+)(?:\s+to\s+(?:(\d+))?:(\d+))?\s*', re.DOTALL)
_CALL_SITE = re.compile(r"\s*callsite\(\s*(.*?)\s+at\s+.*\)\s*", re.DOTALL)
_FUSED = re.compile(r"\s*fused(?:<[^>]*>)?\[\s*([^,\]]*).*\]\s*", re.DOTALL)
_MAX_STEPS = 50


class Locations:
    """Resolves locations, each distinct text once."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._known: dict[str, Metadata | None] = {}

    def metadata(self, location: str) -> Metadata | None:
        """Return the metadata for the contents of `loc(...)`, None if they are empty."""
        if location not in self._known:
            self._known[location] = self._resolve(location)
        return self._known[location]

    def _resolve(self, location: str) -> Metadata | None:
        """Follow aliases, names and call sites to the innermost file."""
        found: dict[str, str | int] = {}
        for _ in range(_MAX_STEPS):
            text = self._aliases.get(location.strip(), location)
            file = _FILE.fullmatch(text)
            named = _NAMED.fullmatch(text)
            if file is not None:
                line, column = int(file[2]), int(file[3])
                found |= {
                    "source_file": unescaped(file[1]),
                    "source_line": line,
                    "source_column": column,
                }
                if file[5]:
                    found |= {
                        "source_end_line": int(file[4] or line),
                        "source_end_column": int(file[5]),
                    }
                break
            if named is not None:
                name = unescaped(named[1])
                key = "op_type" if name.endswith(":") else "op_name"
                found.setdefault(key, name.removesuffix(":"))
                location = named[2] or ""
            else:
                inner = _CALL_SITE.fullmatch(text) or _FUSED.fullmatch(text)
                location = inner[1] if inner is not None else ""
            if not location:
                break
        return Metadata(**found) if found else None  # type: ignore[arg-type]
