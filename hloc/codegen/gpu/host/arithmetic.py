"""Arithmetic helpers of GPUs as functions for the host processor."""

from __future__ import annotations

_BF16_HALF = """\
define internal i32 @host.bf16(float %x) alwaysinline {
  %bits = bitcast float %x to i32
  %above = lshr i32 %bits, 16
  %odd = and i32 %above, 1
  %half = add i32 %odd, 32767
  %rounded = add i32 %bits, %half
  %short = lshr i32 %rounded, 16
  %is.nan = fcmp uno float %x, %x
  %r = select i1 %is.nan, i32 32767, i32 %short
  ret i32 %r
}
"""

ARITHMETIC: dict[str, str] = {
    "exp2": """\
define internal float @host.exp2(float %x) alwaysinline {
  %r = call float @llvm.exp2.f32(float %x)
  ret float %r
}
""",
    "pack_pair.f16": """\
define internal i32 @host.pack_pair.f16(float %x, float %y) alwaysinline {
  %a = fptrunc float %x to half
  %b = fptrunc float %y to half
  %v = insertelement <2 x half> poison, half %a, i32 0
  %w = insertelement <2 x half> %v, half %b, i32 1
  %r = bitcast <2 x half> %w to i32
  ret i32 %r
}
""",
    "pack_pair.bf16": _BF16_HALF
    + """\
define internal i32 @host.pack_pair.bf16(float %x, float %y) alwaysinline {
  %a = call i32 @host.bf16(float %x)
  %b = call i32 @host.bf16(float %y)
  %high = shl i32 %b, 16
  %r = or i32 %a, %high
  ret i32 %r
}
""",
}
"""Definition of `@host.<name>` by helper."""
