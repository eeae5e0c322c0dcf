"""Objects kept between runs, so that a module compiled once needs no LLVM the next time.

A file is named by a digest of all that its contents depend on and begins with a digest of them, so
a file that was cut short or changed is never loaded. The directory is the user's own
(`hloc/cache_directory.py`).
"""

from __future__ import annotations

import hashlib

import llvmlite

from hloc.cache_directory import read_cached, trim_cache_daily, write_cached
from hloc.codegen.object_file import check_symbols, compile_object, llvm_options
from hloc.codegen.target import Target

_DIGEST_BYTES = 32
MAX_CACHE_BYTES = 512 << 20


def cached_object(text: str, target: Target, level: int, also: frozenset[str]) -> bytes:
    """Return what `compile_object` returns, from the cache if it is there."""
    name = _file_name(text, target, level)
    kept = read_cached(name)
    if kept is not None:
        data = kept[_DIGEST_BYTES:]
        if hashlib.sha256(data).digest() == kept[:_DIGEST_BYTES]:
            check_symbols(data, also=also)
            return data
    data = compile_object(text, target, level, also=also)
    write_cached(name, hashlib.sha256(data).digest() + data)
    trim_cache_daily(MAX_CACHE_BYTES)
    return data


def _file_name(text: str, target: Target, level: int) -> str:
    versions = (llvmlite.__version__, *llvmlite.binding.llvm_version_info)
    parts = (text, target, level, llvm_options(level), versions)
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
    return f"object-{digest[:40]}.o"
