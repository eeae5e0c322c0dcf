"""The machines beside the host that hloc compiles for.

The x86-64 levels are those of the System V ABI supplement. These rows list the features of each
processor that arithmetic can use, since LLVM does not expose its own table.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Literal, TypeAlias

from hloc.codegen.backend_names import backend_names
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass

PointerWidth: TypeAlias = Literal[32, 64]

_V2 = "+cx16,+popcnt,+sahf,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_V4 = f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"
_WIDE_CRYPTO = "+gfni,+vaes,+vpclmulqdq"
_ALDER = f"{_V3},+avxvnni,{_WIDE_CRYPTO}"
_CASCADE = f"{_V4},+avx512vnni"
_COOPER = f"{_CASCADE},+avx512bf16"
_VECTORS_OF_BITS = "+avx512bitalg,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vpopcntdq"
_ICELAKE = f"{_CASCADE},{_VECTORS_OF_BITS},{_WIDE_CRYPTO}"
_ZEN4 = f"{_ICELAKE},+avx512bf16"
_ZEN5 = f"{_ZEN4},+avxvnni"
_SAPPHIRE = f"{_ZEN5},+avx512fp16,+amx-bf16,+amx-int8,+amx-tile"
_GRANITE = f"{_SAPPHIRE},+amx-fp16"
_ARM_V8_2 = "+dotprod,+fullfp16"
_ARM_V8_6 = f"{_ARM_V8_2},+bf16,+i8mm"


@dataclass(frozen=True, slots=True)
class Machine:
    """One instruction set.

    Attributes:
        arch: first part of its triples.
        triple: the triple for `arch` alone.
        cpu: LLVM's name for the oldest processor.
        features: features of every processor that the triple does not imply.
        abi: as in `Target`.
        vector_bits: without further features.
        cpus: further features of processors, by LLVM's name.
        note: what a user should know.
    """

    arch: str
    triple: str
    cpu: str
    features: str = ""
    abi: str = ""
    vector_bits: int = 128
    cpus: dict[str, str] = field(default_factory=dict)
    note: str = ""


MACHINES: tuple[Machine, ...] = (
    Machine(
        "x86_64",
        "x86_64-unknown-linux-gnu",
        "x86-64",
        "+sse,+sse2",
        cpus={
            "x86-64": "",
            "x86-64-v2": _V2,
            "x86-64-v3": _V3,
            "x86-64-v4": _V4,
            "haswell": _V3,
            "broadwell": _V3,
            "skylake": _V3,
            "alderlake": _ALDER,
            "skylake-avx512": _V4,
            "cascadelake": _CASCADE,
            "cooperlake": _COOPER,
            "icelake-client": _ICELAKE,
            "icelake-server": _ICELAKE,
            "tigerlake": _ICELAKE,
            "rocketlake": _ICELAKE,
            "sapphirerapids": _SAPPHIRE,
            "emeraldrapids": _SAPPHIRE,
            "graniterapids": _GRANITE,
            "znver1": _V3,
            "znver2": _V3,
            "znver3": f"{_V3},+vaes,+vpclmulqdq",
            "znver4": _ZEN4,
            "znver5": _ZEN5,
        },
        note="vectors of 128, 256 (v3) or 512 bits (v4)",
    ),
    Machine(
        "aarch64",
        "aarch64-unknown-linux-gnu",
        "generic",
        "+neon",
        cpus={
            "generic": "",
            "cortex-a53": "",
            "cortex-a72": "",
            "cortex-a76": _ARM_V8_2,
            "neoverse-n1": _ARM_V8_2,
            "neoverse-v1": _ARM_V8_6,
            "neoverse-n2": _ARM_V8_6,
            "neoverse-v2": _ARM_V8_6,
            "apple-m1": _ARM_V8_2,
            "apple-m2": _ARM_V8_6,
        },
        note="NEON, vectors of 128 bits",
    ),
    Machine(
        "armv7",
        "armv7-unknown-linux-gnueabihf",
        "generic",
        "+neon,+vfp4",
        cpus=dict.fromkeys(("generic", "cortex-a7", "cortex-a15", "cortex-a17"), ""),
        note="NEON and VFPv4, hard-float calls; vectors flush denormals to zero",
    ),
    Machine(
        "riscv64",
        "riscv64-unknown-linux-gnu",
        "generic-rv64",
        "+m,+a,+f,+d,+c",
        abi="lp64d",
        cpus={"generic-rv64": "", "sifive-u74": ""},
        note="rv64gc, no vector registers",
    ),
    Machine(
        "wasm32",
        "wasm32-unknown-unknown",
        "generic",
        "+simd128,+bulk-memory",
        cpus={"generic": ""},
        note="simd128, bulk memory; functions of libm are imports",
    ),
)

_FEATURES = re.compile(r"[+-][a-z0-9.-]+(,[+-][a-z0-9.-]+)*", re.ASCII)
_TRIPLE = re.compile(r"[a-z0-9_]+(-[a-z0-9_.]+){1,4}", re.ASCII)


def machine_named(triple: str) -> Machine:
    """Return the row for a triple or the first part of one.

    Raises:
        HloError: the target is unknown; the message lists those that are known.
    """
    arch = triple.split("-")[0]
    arch = {"arm64": "aarch64", "amd64": "x86_64", "armv7a": "armv7", "arm": "armv7"}.get(
        arch, arch
    )
    for row in MACHINES:
        if row.arch == arch and ("-" not in triple or _TRIPLE.fullmatch(triple)):
            return row
    known = ", ".join([*backend_names(), *(row.arch for row in MACHINES)])
    raise HloError(f"there is no target {triple!r}; targets are {known}, or triples of these")


def named_features(row: Machine, cpu: str, features: str) -> str:
    """Return the features of processor `cpu` of a machine, with `features` after them.

    Raises:
        HloError: an unknown processor, or features that are not a list of `+name` and `-name`.
    """
    if cpu and cpu not in row.cpus:
        from difflib import get_close_matches

        near = get_close_matches(cpu, row.cpus, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        known = ", ".join(row.cpus)
        raise HloError(f"{row.arch} has no processor {cpu!r}{hint}", notes=(f"known are {known}",))
    if features and not _FEATURES.fullmatch(features):
        raise HloError(f"features are written +name,-name, not {features!r}")
    return ",".join(filter(None, (row.features, row.cpus[cpu or row.cpu], features)))


def features_of(triple: str, cpu: str) -> str:
    """Return the features of this host that LLVM implies by `cpu` and does not list, "" for none.

    Of x86-64 it lists all.
    """
    return machine_named(triple).cpus.get(cpu, "") if is_aarch64(triple) else ""


def is_aarch64(triple: str) -> bool:
    """True for 64-bit ARM: 32 vector registers, and products with one lane of a register."""
    return triple.startswith(("aarch64", "arm64"))


def vector_bits_of(row: Machine, features: str) -> int:
    """Return the width of vectors in bits; of `+f` and `-f`, the last one counts."""
    last = {part[1:]: part[0] == "+" for part in features.split(",") if part}
    if row.arch != "x86_64":
        return row.vector_bits
    if all(last.get(name) for name in ("avx512f", "avx512vl", "avx512dq")):
        return 512
    return 256 if last.get("avx") else 128
