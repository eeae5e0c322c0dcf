"""`hloc cache`: show, fill and empty the cache folder."""

from __future__ import annotations

from argparse import Namespace

from hloc.cache_directory import (
    INSTALLED_FILES,
    cache_directory,
    cached_kinds,
    cached_sizes,
    trim_cache,
    why_no_cache,
)
from hloc.cli.talk import Talk
from hloc.codegen.llvm.target import host_target
from hloc.errors import HloError, printable, reason_of
from hloc.parser.table_fill import fill_tables
from hloc.quantities import size_text
from hloc.report.exits import Exit, UsageError
from hloc.report.json_report import json_report
from hloc.report.text import plural
from hloc.runtime.routine_fill import Filled, fill_cache, fill_directory


def cache(arguments: Namespace, talk: Talk) -> int:
    """Print path, files and bytes, after removing files or, with --fill, writing them."""
    a = arguments
    if a.files:
        raise UsageError(f"cache takes no file, found {a.files[0]!r}")
    if sum((a.clear, a.trim is not None, a.path, a.fill is not None)) > 1:
        raise UsageError("--clear, --trim, --path and --fill exclude each other")
    if a.fill == "package":
        return _fill_package(talk)
    directory = cache_directory()
    if directory is None:
        if a.format == "json":
            talk.product(
                json_report("cache", {"directory": None, "files": 0, "bytes": 0, "kinds": {}})
            )
        talk.say(f"no cache: {printable(why_no_cache())}")
        return Exit.FAULT if a.path else Exit.OK
    if a.path:
        talk.product(str(directory))
        return Exit.OK
    if a.fill:
        talk.say(_filled_text(fill_cache(host_target())))
    before = cached_sizes()
    if a.clear or a.trim is not None:
        trim_cache(0 if a.clear else a.trim)
        after = cached_sizes()
        gone = len(before) - len(after)
        talk.say(f"removed {plural(gone, 'file')}, {size_text(sum(before) - sum(after))}")
        before = after
    if a.format == "json":
        counts = {"files": len(before), "bytes": sum(before), "kinds": dict(cached_kinds())}
        talk.product(json_report("cache", {"directory": str(directory), **counts}))
        return Exit.OK
    kinds = ", ".join(plural(count, kind) for kind, count in cached_kinds().items())
    shown = f" ({kinds})" if kinds else ""
    talk.product(f"{directory}: {plural(len(before), 'file')}, {size_text(sum(before))}{shown}")
    return Exit.OK


def _fill_package(talk: Talk) -> int:
    """Compile the routines into the installed package."""
    try:
        filled = fill_directory(INSTALLED_FILES, host_target())
        fill_tables(INSTALLED_FILES)
    except OSError as fault:
        where = printable(str(INSTALLED_FILES))
        raise HloError(f"cannot write {where}: {reason_of(fault)}") from None
    talk.say(_filled_text(filled))
    talk.product(f"{INSTALLED_FILES}: {plural(filled.compiled + filled.present, 'object')}")
    return Exit.OK


def _filled_text(filled: Filled) -> str:
    compiled = f"compiled {plural(filled.compiled, 'routine')}, {size_text(filled.size_bytes)}"
    return f"{compiled}; {filled.present:,} were there"
