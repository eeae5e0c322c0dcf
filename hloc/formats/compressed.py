"""gzip files, with limits against decompression bombs."""

from __future__ import annotations

import zlib

from hloc.errors import HloError
from hloc.limits import current_limits

MAX_FACTOR, SMALL = 250, 64 << 20
"""Contents above `SMALL` may have at most `MAX_FACTOR` times the size of the file; a bomb has 1000
times."""

_CHUNK = 1 << 20


def decompress(data: bytes, name: str) -> bytes:
    """Return the contents of the gzip file `data`, all its members joined.

    Raises:
        HloError: the file is damaged, or its contents exceed the limits.
    """
    parts: list[bytes] = []
    size = 0
    limit = min(current_limits().input_bytes, max(SMALL, len(data) * MAX_FACTOR))
    rest = data
    try:
        while rest.startswith(b"\x1f\x8b"):
            member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            while not member.eof:
                part = member.decompress(rest, _CHUNK)
                rest = member.unconsumed_tail
                if not part and not rest and not member.eof:
                    raise HloError(f"{name} is a gzip file that ends too early")
                size += len(part)
                if size > limit:
                    raise HloError(f"{name} is a gzip file that holds more than {limit} bytes")
                parts.append(part)
            rest = member.unused_data
    except zlib.error as fault:
        raise HloError(f"{name} is a damaged gzip file: {fault}") from None
    return b"".join(parts)
