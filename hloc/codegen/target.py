"""The machine that code is made for: triple, features, vector width, cache sizes.

Vector width comes from the features, never from the CPU name, which LLVM gets wrong on new parts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

_CACHE_DIRECTORY = Path("/sys/devices/system/cpu/cpu0/cache")
_DEFAULT_CACHES = {1: 32 << 10, 2: 1 << 20, 3: 8 << 20}
_SIZE_SUFFIXES = {"K": 10, "M": 20, "G": 30}


@dataclass(frozen=True, slots=True)
class Target:
    """What code generation may assume of the machine.

    Attributes:
        triple, cpu: as LLVM names them.
        features: LLVM's feature string, `+avx2,+fma,-amx-tile`.
        data_layout: LLVM's data layout string.
        vector_bits: width of the widest register that is worth using.
        l1_bytes, l2_bytes, l3_bytes: data caches of one core.
    """

    triple: str
    cpu: str
    features: str
    data_layout: str
    vector_bits: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    @property
    def vector_bytes(self) -> int:
        return self.vector_bits // 8

    def has(self, feature: str) -> bool:
        """True if the machine has `feature`, in LLVM's spelling: `avx512f`, `fma`, `neon`."""
        return f"+{feature}" in self.features.split(",")


def initialize_llvm() -> None:
    """Register the native target with LLVM; cheap when called again."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def host_target() -> Target:
    """Return the machine this process runs on."""
    initialize_llvm()
    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    machine = llvm.Target.from_triple(triple).create_target_machine()
    return Target(
        triple=triple,
        cpu=llvm.get_host_cpu_name(),
        features=str(features.flatten()),
        data_layout=str(machine.target_data),
        vector_bits=_vector_bits(triple, features),
        l1_bytes=_cache_bytes(1),
        l2_bytes=_cache_bytes(2),
        l3_bytes=_cache_bytes(3),
    )


@cache
def create_target_machine(target: Target, codegen_level: int) -> llvm.TargetMachine:
    """Return LLVM's code generator for `target`, made once; `codegen_level` is 0 to 3."""
    initialize_llvm()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=codegen_level,
        reloc="pic",
        codemodel="small",
    )


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
