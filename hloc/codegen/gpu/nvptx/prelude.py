"""The functions `@gpu.*` for NVIDIA GPUs."""

from __future__ import annotations

from hloc.codegen.gpu.helpers import HELPERS, WARPGROUP_HELPERS
from hloc.codegen.gpu.nvptx import warpgroup_prelude

_SHUFFLES = {"xor": ("bfly", 31), "up": ("up", 0), "down": ("down", 31), "index": ("idx", 31)}
_MMA = {
    "bf16": "m16n8k16.row.col.bf16",
    "f16": "m16n8k16.row.col.f32.f32",
    "tf32": "m16n8k8.row.col.tf32",
    "s8": "m16n8k32.row.col.s8",
    "u8": "m16n8k32.row.col.u8",
}


def prelude_text(helpers: dict[str, None]) -> str:
    """Return the definitions of `helpers` and the declarations that they need."""
    texts = [_definition(name) for name in helpers]
    lines = dict.fromkeys(line for text in texts for line in text)
    return "\n".join(lines)


def _definition(name: str) -> tuple[str, ...]:
    """Return the declaration of an intrinsic, if it calls one, and the helper."""
    row = HELPERS[name]
    if name in WARPGROUP_HELPERS:
        return (warpgroup_prelude.definition(name),)
    if name.startswith("pack_pair."):
        return _pack_pair(name)
    intrinsic, constants_before, constants_after = _intrinsic(name)
    given = [f"{kind} %{number}" for number, kind in enumerate(row.arguments)]
    passed, casts = _as_halves(given) if name == "multiply_tiles.f16" else (given, [])
    operands = ", ".join([*constants_before, *passed, *constants_after])
    types = ", ".join(operand.rsplit(" ", 1)[0] for operand in operands.split(", ") if operand)
    bound = _BOUNDS.get(name.split(".")[0], "")
    convergent = "" if row.scope == "thread" else " convergent"
    call = f"call {bound}{row.result} @llvm.nvvm.{intrinsic}({operands})"
    lines = [
        f"define internal {row.result} @gpu.{name}({', '.join(given)}) alwaysinline{convergent} {{",
        *casts,
    ]
    if row.result == "void":
        lines += [f"  {call}", "  ret void"]
    else:
        lines += [f"  %r = {call}", f"  ret {row.result} %r"]
    return f"declare {row.result} @llvm.nvvm.{intrinsic}({types})", "\n".join([*lines, "}"])


def _as_halves(given: list[str]) -> tuple[list[str], list[str]]:
    """Return parameters with words as pairs of f16, and the instructions that make these."""
    passed, casts = [], []
    for parameter in given:
        kind, value = parameter.split(" ")
        if kind == "i32":
            casts.append(f"  %h{value[1:]} = bitcast i32 {value} to <2 x half>")
            parameter = f"<2 x half> %h{value[1:]}"
        passed.append(parameter)
    return passed, casts


def _pack_pair(name: str) -> tuple[str, str]:
    """Return the helper that rounds two numbers to a word; the PTX operand order is high, low."""
    kind = name.rsplit(".", 1)[1]
    pair = f"<2 x {'half' if kind == 'f16' else 'bfloat'}>"
    intrinsic = f"{pair} @llvm.nvvm.ff2{kind}x2.rn"
    lines = [
        f"define internal i32 @gpu.{name}(float %0, float %1) alwaysinline {{",
        f"  %pair = call {intrinsic}(float %1, float %0)",
        f"  %r = bitcast {pair} %pair to i32",
        "  ret i32 %r",
        "}",
    ]
    return f"declare {intrinsic}(float, float)", "\n".join(lines)


_BOUNDS = {"thread": "range(i32 0, 1024) ", "block": "range(i32 0, 2147483647) "}


def _intrinsic(name: str) -> tuple[str, list[str], list[str]]:
    """Return the name after `llvm.nvvm.`, and the constant operands before and after."""
    head, _, rest = name.partition(".")
    if head in ("thread", "block"):
        return f"read.ptx.sreg.{'tid' if head == 'thread' else 'ctaid'}.{rest}", [], []
    if head == "grid":
        return f"read.ptx.sreg.nctaid.{rest}", [], []
    if name == "barrier":
        return "barrier.cta.sync.aligned.all", ["i32 0"], []
    if name == "warp_barrier":
        return "bar.warp.sync", ["i32 -1"], []
    if head == "shuffle":
        how, kind = rest.split(".")
        mode, clamp = _SHUFFLES[how]
        return (
            f"shfl.sync.{mode}.{'f32' if kind == 'float' else 'i32'}",
            ["i32 -1"],
            [f"i32 {clamp}"],
        )
    if head == "multiply_tiles":
        return f"mma.{_MMA[rest]}", [], []
    if head == "copy_async" and rest.startswith("wait"):
        return "cp.async.wait.group", [f"i32 {rest.rsplit('.', 1)[1]}"], []
    return _PLAIN[name], [], []


_PLAIN = {
    "exp2": "ex2.approx.ftz.f",
    "copy_async.16": "cp.async.cg.shared.global.16",
    "copy_async.16.part": "cp.async.cg.shared.global.16.s",
    "copy_async.commit": "cp.async.commit.group",
    "load_matrix.x4": "ldmatrix.sync.aligned.m8n8.x4.b16.p3",
    "load_matrix.x4.transposed": "ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3",
}
