"""The target machine: triple, features, vector width, cache sizes.

Vector width comes from the features, never from the CPU name, which LLVM gets wrong on new parts.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from hloc.codegen.llvm.forks import hold_at_forks
from hloc.codegen.llvm.machines import (
    PointerWidth,
    features_of,
    is_aarch64,
    machine_named,
    named_features,
    vector_bits_of,
)
from hloc.codegen.llvm.matrix_registers import allow_matrix_registers
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass

_CACHE_DIRECTORY = Path("/sys/devices/system/cpu/cpu0/cache")
_DEFAULT_CACHES = {1: 32 << 10, 2: 1 << 20, 3: 8 << 20}
_SIZE_SUFFIXES = {"K": 10, "M": 20, "G": 30}


@dataclass(frozen=True, slots=True)
class Target:
    """What code generation may assume of the machine.

    Attributes:
        triple, cpu: as LLVM names them.
        features: LLVM's feature string, `+avx2,+fma,-amx-tile`.
        vector_bits: width of the widest register that is worth using.
        l1_bytes, l2_bytes, l3_bytes: data caches of one core.
        abi: LLVM's name of the calling convention, "" for the usual one of the triple.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    abi: str = ""

    @property
    def is_host(self) -> bool:
        """True if code for this target runs in this process: same triple, no feature it lacks."""
        host = host_target()
        if self == host:
            return True
        wanted = {f for f in _features(self.features) if f.startswith("+")}
        return self.triple == host.triple and wanted <= _features(host.features)

    @property
    def is_aarch64(self) -> bool:
        """See `machines.is_aarch64`."""
        return is_aarch64(self.triple)

    @property
    def has_libm(self) -> bool:
        """True if code can call the C library; GPUs have none."""
        return not self.triple.startswith(("nvptx", "amdgcn"))

    @property
    def pointer_bits(self) -> PointerWidth:
        """Width of an address."""
        return 32 if self.triple.startswith(("arm", "wasm32")) else 64

    @property
    def has_vectors(self) -> bool:
        """True if there are vector registers; LLVM warns about the option otherwise."""
        return not self.triple.startswith("riscv") or self.has("v")

    @property
    def vector_bytes(self) -> int:
        return self.vector_bits // 8

    def has(self, feature: str) -> bool:
        """True if the machine has `feature`, in LLVM's spelling: `avx512f`, `fma`, `neon`."""
        return f"+{feature}" in _features(self.features)


@cache
def _features(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


def initialize_llvm(*, all_targets: bool = False) -> None:
    """Register the native target, or all, with LLVM; cheap when called again."""
    _hold_llvm_at_forks()
    if all_targets:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _hold_llvm_at_forks() -> None:
    """Let forks wait until no thread is inside LLVM: llvmlite has one lock for all of it."""
    hold_at_forks(llvm.ffi.lib._lock)


@cache
def host_target() -> Target:
    """Return the machine this process runs on."""
    initialize_llvm()
    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    if features.get("amx-tile") and not allow_matrix_registers():
        features.update({name: False for name in features if name.startswith("amx-")})
    cpu = llvm.get_host_cpu_name()
    return Target(
        triple=triple,
        cpu=cpu,
        features=",".join(filter(None, (features.flatten(), features_of(triple, cpu)))),
        vector_bits=_vector_bits(triple, features),
        l1_bytes=_cache_bytes(1),
        l2_bytes=_cache_bytes(2),
        l3_bytes=_cache_bytes(3),
    )


def target_for(triple: str = "", cpu: str = "", features: str = "") -> Target:
    """Return the machine that options ask for; all empty is the host as it is.

    Args:
        triple: as LLVM spells it, or the first part of one, `aarch64`.
        cpu: a name from `MACHINES`, `native`, "" for the oldest machine of a triple.
        features: what to add or take away, `+avx2,-fma`.

    Raises:
        HloError: an unknown target or processor.
    """
    host = host_target()
    if not triple or triple == host.triple or triple == host.triple.split("-")[0]:
        return _like_host(host, cpu or (machine_named(triple).cpu if triple else ""), features)
    if cpu == "native":
        raise HloError(f"native is a processor of {host.triple}, not of {triple}")
    row = machine_named(triple)
    initialize_llvm(all_targets=True)
    name = triple if "-" in triple else row.triple
    chosen = named_features(row, cpu, features)
    return Target(
        triple=name,
        cpu=cpu or row.cpu,
        features=chosen,
        vector_bits=vector_bits_of(row, chosen),
        l1_bytes=_DEFAULT_CACHES[1],
        l2_bytes=_DEFAULT_CACHES[2],
        l3_bytes=_DEFAULT_CACHES[3],
        abi=row.abi,
    )


def _like_host(host: Target, cpu: str, features: str) -> Target:
    """Return the host, or another processor of its family."""
    if cpu in ("", "native"):
        if not features:
            return host
        row = machine_named(host.triple)
        named_features(row, "", features)  # says what is wrong with them
        taken = {part[1:] for part in features.split(",")}
        kept = [part for part in host.features.split(",") if part[1:] not in taken]
        chosen = ",".join([*kept, *features.split(",")])
        return replace(host, features=chosen, vector_bits=vector_bits_of(row, chosen))
    row = machine_named(host.triple)
    chosen = named_features(row, cpu, features)
    return replace(host, cpu=cpu, features=chosen, vector_bits=vector_bits_of(row, chosen))


@cache
def create_target_machine(target: Target, codegen_level: int) -> llvm.TargetMachine:
    """Return LLVM's code generator for `target`, made once; `codegen_level` is 0 to 3."""
    initialize_llvm(all_targets=target.triple != host_target().triple)
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=codegen_level,
        reloc="pic",
        codemodel="medium" if target.triple.startswith("riscv") else "small",
        abiname=target.abi,
    )


def llvm_version() -> str:
    """Return the version of LLVM that llvmlite brings."""
    return ".".join(map(str, llvm.llvm_version_info))


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def physical_memory_bytes() -> int:
    """Return the memory of this machine, or 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def _vector_bits(triple: str, features: dict[str, bool]) -> int:
    if not triple.startswith(("x86_64", "i686")):
        return 128
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512dq"):
        return 512
    return 256 if features.get("avx") else 128


def _cache_bytes(level: int) -> int:
    for entry in sorted(_CACHE_DIRECTORY.glob("index*")):
        try:
            is_data = (entry / "type").read_text().strip() != "Instruction"
            if is_data and int((entry / "level").read_text()) == level:
                text = (entry / "size").read_text().strip()
                return int(text[:-1]) << _SIZE_SUFFIXES[text[-1]]
        except (OSError, ValueError, KeyError):
            continue
    return _DEFAULT_CACHES[level]
