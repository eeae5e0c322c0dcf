"""Flushing of subnormal numbers to zero: the processor mode, and LLVM text that sets it.

The mode is per thread and is restored: functions set it on entry and restore the previous one on
return; host functions run in the default mode.
"""

from __future__ import annotations

from hloc.codegen.llvm.target import Target
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass

ATTRIBUTE = '"denormal-fp-math"="preserve-sign,preserve-sign"'
"""Tells LLVM's passes about the mode, so that constant folding agrees with it."""

MODULE_ATTRIBUTE = "hloc_flush_subnormals"
"""`frontend_attributes={hloc_flush_subnormals="true"}` in the header of a module."""


def asks_to_flush(module: Module) -> bool:
    """Return whether the header of `module` asks for flushing of subnormal numbers.

    Raises:
        HloError: the attribute is neither "true" nor "false".
    """
    text = dict(module.config.frontend_attributes).get(MODULE_ATTRIBUTE, "false").strip('"')
    if text not in ("true", "false"):
        raise HloError(f'{MODULE_ATTRIBUTE} is "true" or "false", not "{text}"')
    return text == "true"


@dataclass(frozen=True, slots=True)
class FloatMode:
    """The floating-point control word of a processor.

    All lines for one change have the same name, which is unique in its function.

    Attributes:
        declarations: of the functions that load and store the word, one per line.
        bits: bits of the word that flush subnormal numbers.
        width_bits: width of the word.
        room: template of the line that allocates memory for the word, if needed.
        load: template of the lines that load the word into `{value}`.
        store: template of the lines that set the word to `{value}`.
    """

    declarations: tuple[str, ...]
    bits: int
    width_bits: int
    room: str
    load: str
    store: str

    def reserved(self, name: str) -> list[str]:
        """Return the lines that the others need in the first block of their function."""
        return self.room.format(name=name).splitlines()

    def flushed(self, name: str) -> list[str]:
        """Return the lines that enable flushing; `restored(name)` undoes them."""
        return self._changed(name, "or", self.bits)

    def kept(self, name: str) -> list[str]:
        """Return the lines that disable flushing; `restored(name)` undoes them."""
        return self._changed(name, "and", ~self.bits)

    def restored(self, name: str) -> list[str]:
        """Return the lines that restore the mode from before the lines called `name`."""
        return self._text(self.store, name, f"%{name}.before")

    def _changed(self, name: str, operation: str, bits: int) -> list[str]:
        return [
            *self._text(self.load, name, f"%{name}.before"),
            f"  %{name}.now = {operation} i{self.width_bits} %{name}.before, {bits}",
            *self._text(self.store, name, f"%{name}.now"),
        ]

    def _text(self, template: str, name: str, value: str) -> list[str]:
        return template.format(name=name, value=value).splitlines()


_X86 = FloatMode(
    declarations=(
        "declare void @llvm.x86.sse.stmxcsr(ptr)",
        "declare void @llvm.x86.sse.ldmxcsr(ptr)",
    ),
    bits=0x8040,  # results (FTZ) and operands (DAZ)
    width_bits=32,
    room="  %{name}.word = alloca i32",
    load=(
        "  call void @llvm.x86.sse.stmxcsr(ptr %{name}.word)\n"
        "  {value} = load i32, ptr %{name}.word"
    ),
    store=(
        "  store i32 {value}, ptr %{name}.word\n  call void @llvm.x86.sse.ldmxcsr(ptr %{name}.word)"
    ),
)

_AARCH64 = FloatMode(
    declarations=(
        "declare i64 @llvm.aarch64.get.fpcr()",
        "declare void @llvm.aarch64.set.fpcr(i64)",
    ),
    bits=1 << 24,  # FZ: operands and results of f32 and f64
    width_bits=64,
    room="",
    load="  {value} = call i64 @llvm.aarch64.get.fpcr()",
    store="  call void @llvm.aarch64.set.fpcr(i64 {value})",
)

_MODES = {"x86_64": _X86, "aarch64": _AARCH64, "arm64": _AARCH64}


def flushing_mode(target: Target) -> FloatMode | None:
    """Return the mode of `target`; None if it has none that hloc knows."""
    return _MODES.get(target.triple.split("-")[0])
