"""`hloc cache`: what the folder of files that hloc can make again holds, and how to empty it."""

from __future__ import annotations

from argparse import Namespace

from hloc.cache_directory import cache_directory, cached_kinds, cached_sizes, trim_cache
from hloc.cli.exits import Exit, UsageError
from hloc.cli.talk import Talk
from hloc.cli.text import plural, size_text


def cache(arguments: Namespace, talk: Talk) -> int:
    """Print path, files and bytes; with --clear or --trim after files were removed."""
    a = arguments
    if a.files:
        raise UsageError(f"cache takes no file, found {a.files[0]!r}")
    if sum((a.clear, a.trim is not None, a.path)) > 1:
        raise UsageError("--clear, --trim and --path exclude each other")
    directory = cache_directory()
    if directory is None:
        talk.say("there is no cache: HLOC_CACHE_DIR is empty, or the folder is not safe to use")
        return Exit.FAULT if a.path else Exit.OK
    if a.path:
        talk.product(str(directory))
        return Exit.OK
    before = cached_sizes()
    if a.clear or a.trim is not None:
        trim_cache(0 if a.clear else a.trim)
        after = cached_sizes()
        gone = len(before) - len(after)
        talk.say(f"removed {plural(gone, 'file')}, {size_text(sum(before) - sum(after))}")
        before = after
    kinds = ", ".join(plural(count, kind) for kind, count in cached_kinds().items())
    shown = f" ({kinds})" if kinds else ""
    talk.product(f"{directory}: {plural(len(before), 'file')}, {size_text(sum(before))}{shown}")
    return Exit.OK
