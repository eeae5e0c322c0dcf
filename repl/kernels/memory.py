"""Memory of a stepped kernel: addresses of the last step, words of shared memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from hloc.errors import HloError
from hloc.ptx.metrics import BANKS, SECTOR_BYTES
from hloc.ptx.stepping import Access
from hloc.report.text import plural
from repl.kernels.steps import KernelSteps
from repl.results import Table

_MOST_WORDS = 64
_MOST_NEW_WORDS = 8


def touched(steps: KernelSteps) -> Iterator[str]:
    """Yield a line per access of the last step, and the words of shared memory that are new."""
    last = steps.last
    if last is None:
        return
    for access in last.accesses:
        own = access.addresses[access.lanes == steps.lane]
        place = (
            f"at {_place(steps, access.space, int(own[0]))}" if len(own) else "not by this thread"
        )
        yield f"{access.space} {place}, {plural(access.size, 'byte')}; {accessed(access)}"
    words = list(last.shared.items())
    for offset, data in words[:_MOST_NEW_WORDS]:
        yield f"shared byte {offset} is now {_word(data)}"
    if len(words) > _MOST_NEW_WORDS:
        yield f"... and {plural(len(words) - _MOST_NEW_WORDS, 'word')} more"


def _place(steps: KernelSteps, space: str, address: int) -> str:
    if space != "global":
        return f"byte {address}"
    arguments = steps.launches[steps.launch].arguments
    below = [(start, number) for number, start in enumerate(arguments) if start <= address]
    if not below:
        return hex(address)
    start, number = max(below)
    return f"argument {number} + {address - start}"


def accessed(access: Access) -> str:
    """Return the cost of an access: its lanes, sectors or words, and lanes per bank."""
    who = plural(len(np.unique(access.lanes)), "lane")
    if access.space == "global":
        first = access.addresses // SECTOR_BYTES
        last = (access.addresses + (access.size - 1)) // SECTOR_BYTES
        sectors = len(np.unique(np.concatenate([first, last])))
        return f"{who}, {plural(sectors, 'sector')} of {SECTOR_BYTES} bytes"
    if access.space == "shared":
        first = access.addresses.astype(np.int64) // 4
        words = np.unique(first[:, None] + np.arange(max(access.size // 4, 1)))
        most = max(Counter((words % BANKS).tolist()).values())
        return f"{who}, {plural(len(words), 'word')}, {most} on one bank at most"
    return who


def _word(data: bytes) -> str:
    bits = np.frombuffer(data, np.uint32)
    return f"{bits[0]:#010x} ({float(bits.view(np.float32)[0]):.6g} as f32)"


def shared_words(steps: KernelSteps, text: str = "") -> Table:
    """Return the words of shared memory that were written, from byte `text` on."""
    if not re.fullmatch(r"\d{0,9}", text):
        raise HloError(f"expected an offset in bytes, found {text!r}")
    found: dict[int, bytes] = {}
    for moment in steps.moments[: steps.now]:
        found.update(moment.shared)
    fresh = steps.last.shared if steps.last is not None else {}
    offsets = [offset for offset in sorted(found) if offset >= int(text or 0)]
    rows = tuple(
        ("*" if offset in fresh else "", str(offset), *_word(found[offset]).split(" ", 1))
        for offset in offsets[:_MOST_WORDS]
    )
    rest = len(offsets) - len(rows)
    title = f"shared memory of block {steps.block}" + ("" if rows else ": nothing is written yet")
    return Table(title + (f", {rest} more words behind" if rest else ""), (), rows, right=(1,))
