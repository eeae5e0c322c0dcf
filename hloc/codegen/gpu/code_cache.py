"""The cache of compiled kernels, named by a digest of everything they depend on.

Files are sealed under their names (`hloc/cache_directory.py`). Equal kernels of all modules share a
file, since names of kernels are digests too.
"""

from __future__ import annotations

import hashlib

import llvmlite

from hloc.cache_directory import read_cached, sealed, trim_cache_daily, unsealed, write_cached
from hloc.codegen.gpu.worker import Job, compile_job
from hloc.codegen.llvm.object_cache import MAX_CACHE_BYTES


def cached_code(job: Job) -> bytes:
    """Return what `compile_job` returns, from the cache if it is there."""
    name = file_name(job)
    kept = unsealed(name, read_cached(name))
    if kept is not None:
        return kept
    code = compile_job(job)
    write_cached(name, sealed(name, code))
    trim_cache_daily(MAX_CACHE_BYTES)
    return code


def file_name(job: Job) -> str:
    """Return the name of the file for `job`: text, chip, level, form, and the version of LLVM."""
    versions = (llvmlite.__version__, *llvmlite.binding.llvm_version_info)
    parts = (job.text, job.triple, job.cpu, job.features, job.level, job.is_object, versions)
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
    return f"kernel-{digest[:40]}.bin"
