"""The functions `@gpu.*` for AMD GPUs.

Threads run in waves of 32 or 64. The groups of 32 that exchange values are the halves of a wave of
64: a thread finds its partner among its own 32 lanes and addresses it by its number in the wave.
"""

from __future__ import annotations

from hloc.codegen.gpu.helpers import HELPERS, WARP_THREADS

_INTRINSICS = "llvm.amdgcn"


def prelude_text(helpers: dict[str, None]) -> str:
    """Return the definitions of `helpers`, which must be known, and their declarations."""
    texts = [_definition(name) for name in helpers]
    declared = dict.fromkeys(line for declarations, _ in texts for line in declarations)
    return "\n".join([*declared, *(text for _, text in texts)])


def is_known(name: str) -> bool:
    """True if there is a definition of the helper `name`; tiles of matrices have none."""
    return name in _POSITIONS or name in _BARRIERS or name in _UNARY or name.startswith("shuffle.")


def _definition(name: str) -> tuple[list[str], str]:
    """Return the declarations that a helper needs, and its definition."""
    if name in _POSITIONS:
        intrinsic = f"{_INTRINSICS}.{_POSITIONS[name]}"
        body = [f"%r = call range(i32 0, 2147483647) i32 @{intrinsic}()"]
        return [f"declare i32 @{intrinsic}()"], _function(name, body)
    if name in _UNARY:
        intrinsic = f"{_INTRINSICS}.{_UNARY[name]}"
        body = [f"%r = call float @{intrinsic}(float %0)"]
        return [f"declare float @{intrinsic}(float)"], _function(name, body)
    if name in _BARRIERS:
        scope, intrinsic = _BARRIERS[name]
        body = [
            f'fence syncscope("{scope}") release',
            f"call void @{_INTRINSICS}.{intrinsic}()",
            f'fence syncscope("{scope}") acquire',
        ]
        return [f"declare void @{_INTRINSICS}.{intrinsic}()"], _function(name, body)
    return _LANE_DECLARATIONS, _function(name, _shuffle(*name.split(".")[1:]))


def _function(name: str, body: list[str]) -> str:
    row = HELPERS[name]
    given = ", ".join(f"{kind} %{number}" for number, kind in enumerate(row.arguments))
    convergent = "" if row.scope == "thread" else " convergent"
    end = "ret void" if row.result == "void" else f"ret {row.result} %r"
    head = f"define internal {row.result} @gpu.{name}({given}) alwaysinline{convergent} {{"
    return "\n".join([head, *(f"  {line}" for line in (*body, end)), "}"])


_POSITIONS = {f"thread.{axis}": f"workitem.id.{axis}" for axis in "xyz"} | {
    f"block.{axis}": f"workgroup.id.{axis}" for axis in "xyz"
}
_UNARY = {"exp2": "exp2.f32"}
_BARRIERS = {"barrier": ("workgroup", "s.barrier"), "warp_barrier": ("wavefront", "wave.barrier")}

_LANE_DECLARATIONS = [
    f"declare i32 @{_INTRINSICS}.mbcnt.lo(i32, i32)",
    f"declare i32 @{_INTRINSICS}.mbcnt.hi(i32, i32)",
    f"declare i32 @{_INTRINSICS}.ds.bpermute(i32, i32)",
]
_PARTNERS = {"xor": "xor i32 %lane, %1", "up": "sub i32 %lane, %1", "down": "add i32 %lane, %1"}


def _shuffle(how: str, kind: str) -> list[str]:
    """Return the body of a shuffle; lanes out of range get their own value."""
    partner = _PARTNERS.get(how, "add i32 %1, 0")
    lines = [
        f"%low = call i32 @{_INTRINSICS}.mbcnt.lo(i32 -1, i32 0)",
        f"%number = call i32 @{_INTRINSICS}.mbcnt.hi(i32 -1, i32 %low)",
        f"%lane = and i32 %number, {WARP_THREADS - 1}",
        f"%first = and i32 %number, {-WARP_THREADS}",
        f"%wanted = {partner}",
    ]
    if how == "index":
        lines.append(f"%chosen = and i32 %wanted, {WARP_THREADS - 1}")
    else:
        lines += [
            f"%is.there = icmp ult i32 %wanted, {WARP_THREADS}",
            "%chosen = select i1 %is.there, i32 %wanted, i32 %lane",
        ]
    lines += ["%other = or i32 %first, %chosen", "%address = shl i32 %other, 2"]
    permute = f"call i32 @{_INTRINSICS}.ds.bpermute(i32 %address, i32"
    if kind == "i32":
        return [*lines, f"%r = {permute} %0)"]
    return [
        *lines,
        "%bits = bitcast float %0 to i32",
        f"%found = {permute} %bits)",
        "%r = bitcast i32 %found to float",
    ]
