"""The tables of processors beside LLVM's own: what code shows of their features."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from hloc.codegen.llvm.machines import Machine, features_of, machine_named
from hloc.codegen.llvm.target import initialize_llvm, target_for

ROW = machine_named("x86_64")
PROCESSORS = [name for name in ROW.cpus if not name.startswith("x86-64")]
ARM_ROW = machine_named("aarch64")
# a feature, or either of two: an instruction that only it brings, and a function that becomes it
SIGNS = {
    "avx2": (
        "vpaddd\t%ymm",
        "define <8 x i32> @f(<8 x i32> %a, <8 x i32> %b) {\n"
        "  %r = add <8 x i32> %a, %b\n  ret <8 x i32> %r\n}",
    ),
    "fma": (
        "vfmadd",
        "define float @f(float %a, float %b) {\n"
        "  %r = call float @llvm.fma.f32(float %a, float %b, float %b)\n  ret float %r\n}\n"
        "declare float @llvm.fma.f32(float, float, float)",
    ),
    "f16c": (
        "vcvtph2ps",
        "define <8 x float> @f(<8 x half> %a) {\n"
        "  %r = fpext <8 x half> %a to <8 x float>\n  ret <8 x float> %r\n}",
    ),
    "avx512vl": (
        "vpternlog",
        "define <8 x i32> @f(<8 x i32> %a, <8 x i32> %b, <8 x i32> %c) {\n"
        "  %s = and <8 x i32> %a, %b\n  %r = xor <8 x i32> %s, %c\n  ret <8 x i32> %r\n}",
    ),
    "avx512vnni or avxvnni": (
        "vpdpwssd",
        "define <8 x i32> @f(<16 x i16> %a, <16 x i16> %b, <8 x i32> %c) {\n"
        "  %s = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %a, <16 x i16> %b)\n"
        "  %r = add <8 x i32> %s, %c\n  ret <8 x i32> %r\n}\n"
        "declare <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>, <16 x i16>)",
    ),
    "avx512bf16": (
        "vcvtneps2bf16",
        "define <8 x bfloat> @f(<8 x float> %a) {\n"
        "  %r = fptrunc <8 x float> %a to <8 x bfloat>\n  ret <8 x bfloat> %r\n}",
    ),
    "avx512fp16": (
        "vaddsh",
        "define half @f(half %a, half %b) {\n  %r = fadd half %a, %b\n  ret half %r\n}",
    ),
    "avx512vpopcntdq": (
        "vpopcntd",
        "define <8 x i32> @f(<8 x i32> %a) {\n"
        "  %r = call <8 x i32> @llvm.ctpop.v8i32(<8 x i32> %a)\n  ret <8 x i32> %r\n}\n"
        "declare <8 x i32> @llvm.ctpop.v8i32(<8 x i32>)",
    ),
    "avx512bitalg": (
        "vpopcntb",
        "define <32 x i8> @f(<32 x i8> %a) {\n"
        "  %r = call <32 x i8> @llvm.ctpop.v32i8(<32 x i8> %a)\n  ret <32 x i8> %r\n}\n"
        "declare <32 x i8> @llvm.ctpop.v32i8(<32 x i8>)",
    ),
    "avx512vbmi2": (
        "vpshldd",
        "define <8 x i32> @f(<8 x i32> %a, <8 x i32> %b) {\n"
        "  %r = call <8 x i32> @llvm.fshl.v8i32(<8 x i32> %a, <8 x i32> %b, <8 x i32> "
        "<i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3>)\n  ret <8 x i32> %r\n}\n"
        "declare <8 x i32> @llvm.fshl.v8i32(<8 x i32>, <8 x i32>, <8 x i32>)",
    ),
    "gfni": (
        "gf2p8affineqb",
        "define <16 x i8> @f(<16 x i8> %a) {\n"
        "  %r = call <16 x i8> @llvm.bitreverse.v16i8(<16 x i8> %a)\n  ret <16 x i8> %r\n}\n"
        "declare <16 x i8> @llvm.bitreverse.v16i8(<16 x i8>)",
    ),
}


def _sum_of_bytes(left: str, right: str) -> str:
    """Return a function that sums the products of bytes, extended by these instructions."""
    return f"""define i32 @f(<16 x i8> %a, <16 x i8> %b) {{
  %x = {left} <16 x i8> %a to <16 x i32>
  %y = {right} <16 x i8> %b to <16 x i32>
  %z = mul <16 x i32> %x, %y
  %r = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %z)
  ret i32 %r
}}
declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)"""


ARM_SIGNS = {
    "dotprod": ("\tsdot", _sum_of_bytes("sext", "sext")),
    "i8mm": ("\tusdot", _sum_of_bytes("zext", "sext")),
    "fullfp16": (
        "fadd\th",
        "define half @f(half %a, half %b) {\n  %r = fadd half %a, %b\n  ret half %r\n}",
    ),
    "bf16": (
        "bfcvt",
        "define bfloat @f(float %a) {\n  %r = fptrunc float %a to bfloat\n  ret bfloat %r\n}",
    ),
}


@pytest.mark.parametrize(
    ("row", "cpu", "signs"),
    [
        *((ROW, cpu, SIGNS) for cpu in PROCESSORS),
        *((ARM_ROW, cpu, ARM_SIGNS) for cpu in ARM_ROW.cpus),
    ],
)
def test_features_are_those_that_llvm_uses(
    row: Machine, cpu: str, signs: dict[str, tuple[str, str]]
) -> None:
    initialize_llvm(all_targets=True)
    machine = llvm.Target.from_triple(row.triple).create_target_machine(cpu=cpu)
    target = target_for(row.arch, cpu)
    for features, (instruction, text) in signs.items():
        has_it = any(target.has(feature) for feature in features.split(" or "))
        assembly = machine.emit_assembly(llvm.parse_assembly(text))
        assert (instruction in assembly) == has_it, f"{cpu} {features}"


def test_features_that_llvm_does_not_list_for_an_arm_host() -> None:
    assert features_of("aarch64-unknown-linux-gnu", "neoverse-n1") == "+dotprod,+fullfp16"
    assert features_of("arm64-apple-darwin24", "apple-m1") == "+dotprod,+fullfp16"
    assert features_of("aarch64-unknown-linux-gnu", "a-newer-one") == ""
    assert features_of("x86_64-unknown-linux-gnu", "znver4") == ""


@pytest.mark.parametrize(
    ("cpu", "features", "bits"),
    [
        ("haswell", "avx2 fma", 256),
        ("skylake-avx512", "avx512bw", 512),
        ("cascadelake", "avx512vnni", 512),
        ("znver4", "avx512vnni avx512bf16", 512),
        ("znver5", "avx512vnni avx512bf16 avxvnni", 512),
        ("sapphirerapids", "avx512fp16 amx-bf16 amx-int8", 512),
        ("graniterapids", "avx512fp16 amx-bf16 amx-int8 amx-fp16", 512),
    ],
)
def test_what_products_choose_by(cpu: str, features: str, bits: int) -> None:
    target = target_for("x86_64", cpu)
    assert all(target.has(name) for name in features.split())
    assert target.vector_bits == bits
    assert target.has("amx-tile") == cpu.endswith("rapids")
