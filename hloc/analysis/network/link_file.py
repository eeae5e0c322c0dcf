"""`--links=FILE.toml`: a file with the link of each mesh axis.

default = "nvlink"        # of every axis without its own link
data = "infiniband"

[pod]
bandwidth = "25GB"        # per second, sent by one device in one direction
latency = "10us"          # of one message, software included
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from hloc.errors import HloError, reason_of
from hloc.lazy_dataclass import dataclass
from hloc.source import SourceFile, Span

DEFAULT = "default"
_KEYS = ("bandwidth", "latency")
_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A link as written, a preset's name or `BANDWIDTH/LATENCY`, and its place in the file."""

    text: str
    span: Span


def read_link_file(path: str) -> dict[str, Entry]:
    """Return the entries of a file by axis.

    Raises:
        HloError: the file cannot be read or is not valid; the error has the place.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as fault:
        raise HloError(f"cannot read {path}: {reason_of(fault)}") from fault
    if len(data) > _MAX_BYTES:
        raise HloError(f"{path} has more than {_MAX_BYTES} bytes, which is no file of links")
    source = SourceFile(data.decode(errors="replace"), path)
    try:
        table = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as fault:
        raise _syntax_error(source, str(fault)) from fault
    except RecursionError:
        raise HloError(f"{path}: its values nest too deeply") from None
    return {axis: _entry(source, axis, value) for axis, value in table.items()}


def _syntax_error(source: SourceFile, words: str) -> HloError:
    """Return the error for a text that is not TOML."""
    found = _PLACE.fullmatch(words)
    if found is None:  # at the end of the document
        return HloError(words[:1].lower() + words[1:], Span(source, len(source.text), 0))
    lines = source.text.split("\n")[: int(found[2]) - 1]
    start = sum(len(line) + 1 for line in lines) + int(found[3]) - 1
    message = found[1]
    return HloError(message[:1].lower() + message[1:], Span(source, start, start + 1))


def _entry(source: SourceFile, axis: str, value: object) -> Entry:
    """Return the link of one axis: a named link, or a table as the text `bandwidth/latency`.

    Raises:
        HloError: not a link, an unknown key, or one of the two keys is missing.
    """
    span = _span(source, axis)
    if isinstance(value, str):
        return Entry(value, span)
    if not isinstance(value, dict):
        raise HloError(
            f"axis '{axis}' needs a link in quotes, or bandwidth and latency, found {value!r}", span
        )
    for key in value:
        if key not in _KEYS:
            raise HloError(
                f"axis '{axis}' has bandwidth and latency, found '{key}'",
                _span(source, key, span.start),
            )
    for key in _KEYS:
        if key not in value:
            raise HloError(f"axis '{axis}' has no {key}", span)
        if not isinstance(value[key], str):
            raise HloError(
                f"{key} is written in quotes, such as {'25GB' if key == _KEYS[0] else '10us'}",
                _span(source, key, span.start),
            )
    return Entry("/".join(value[key] for key in _KEYS), span)


def _span(source: SourceFile, key: str, start: int = 0) -> Span:
    """Return the place of a key after `start`; its first line if the key is escaped."""
    pattern = re.compile(rf"(?:^|(?<=[\s\[{{,\"'])){re.escape(key)}(?=[\"'\s\]=])", re.MULTILINE)
    found = pattern.search(source.text, start)
    return Span(source, found.start(), found.end()) if found else Span(source, start, start + 1)
