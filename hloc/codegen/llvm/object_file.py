"""LLVM text to machine code: parse, verify, optimise, emit, and check the undefined symbols.

Only symbols on the allowlist may be undefined, so generated code can call nothing else.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from functools import cache

import llvmlite
import llvmlite.binding as llvm

from hloc.address_space import LLVM_BYTES, LLVM_BYTES_PER_CHARACTER, require_space
from hloc.codegen.llvm.machines import is_aarch64
from hloc.codegen.llvm.routine import FINAL_FORM, FINAL_WITH_SLOTS, ONLY_SHORT_LOOPS, SHORT_LOOPS
from hloc.codegen.llvm.target import Target, create_target_machine, host_target
from hloc.errors import InternalError
from hloc.lazy_dataclass import dataclass

_LIBM = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
    floor fma fmax fmin fmod hypot ldexp log log10 log1p log2 nearbyint pow rint round roundeven
    sin sincos sinh sqrt tan tanh tgamma trunc
"""

ALLOWED_SYMBOLS: frozenset[str] = frozenset(
    [*_LIBM.split(), *(f"{name}f" for name in _LIBM.split()), "memcpy", "memmove", "memset"]
)
"""The C library functions that LLVM or an emitter may fall back on."""

_FUNCTION = re.compile(r"^(define [^\n]*?) *\{$", re.MULTILINE)

ELF64_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE_SECTION = 2


def parse_module(text: str, context: llvm.ContextRef | None = None) -> llvm.ModuleRef:
    """Return `text` as a verified LLVM module; invalid text is a bug of hloc.

    Args:
        text: LLVM's assembly language.
        context: shared by modules that are linked. By default the module gets its own context: a
            context keeps every constant and name as long as it lives, and LLVM's global one is
            never freed.

    Raises:
        MemoryError: too little address space is left; LLVM would end the process.
    """
    require_space(LLVM_BYTES + LLVM_BYTES_PER_CHARACTER * len(text), "compiling")
    try:
        module = llvm.parse_assembly(text, context or llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"generated LLVM IR is invalid: {error}") from error
    return module


def with_attributes(text: str, attributes: str) -> str:
    """Return LLVM text in which each function has `attributes` as well."""
    return _FUNCTION.sub(rf"\1 {attributes} {{", text)


def with_features(text: str, cpu: str, features: str) -> str:
    """Return LLVM text in which each function names the processor that it is compiled for."""
    return with_attributes(text, f'"target-cpu"="{cpu}" "target-features"="{features}"')


def llvm_options(level: int, triple: str) -> dict[str, int]:
    """Return the options of LLVM's pipeline at `level`, by llvmlite's names.

    Level 2 is LLVM's level 1 and the vectoriser: the rest of LLVM's level 2 makes kernels no
    faster (hloc's own passes have left nothing to eliminate), and takes a tenth of the time. Loops
    in loops are interleaved on ARM only: their vectors are short, and pairs load and store faster.
    """
    if level in (SHORT_LOOPS, ONLY_SHORT_LOOPS):
        options = llvm_options(2, triple)
        options |= {"slp_vectorization": True, "loop_interleaving": is_aarch64(triple)}
        return options | {"speed_level": 2 if level == ONLY_SHORT_LOOPS else 1}
    return {
        "speed_level": 1 if level == 2 else level,
        "loop_vectorization": level > 1,
        "loop_interleaving": level > 1,
        "slp_vectorization": level > 2,
        "loop_unrolling": level > 2,
    }


def code_level(level: int) -> int:
    """Return LLVM's level for machine code from text of `level`, without the passes before it."""
    return 2 if level in (SHORT_LOOPS, ONLY_SHORT_LOOPS) else abs(level)


def optimize_module(
    module: llvm.ModuleRef, machine: llvm.TargetMachine, level: int
) -> llvm.ModuleRef:
    """Run LLVM's default pipeline of `level` (0 to 3, or none) over `module`, in place.

    Unrolling and SLP vectorisation run at level 3 only: they take half of the compile time, and
    vectorised loops are interleaved without them. The text does not name the machine; LLVM assumes
    the host unless it is given one.
    """
    if machine.triple != host_target().triple:
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
    if level in (FINAL_FORM, 0):  # at level 0 LLVM would only look for functions to inline
        return module
    if level == FINAL_WITH_SLOTS:
        _promote_slots(module, machine)
        return module
    options = llvm.create_pipeline_tuning_options()
    for name, value in llvm_options(level, machine.triple).items():
        setattr(options, name, value)
    builder = create_pass_builder(machine, options)
    run_passes(builder.getModulePassManager(), module, builder)
    return module


@dataclass(slots=True, eq=False)
class PassBuilders:
    """Counts pass builders of this process: llvmlite never frees their callbacks, 1.6 KB each."""

    made: int = 0


pass_builders = PassBuilders()


def create_pass_builder(
    machine: llvm.TargetMachine, options: llvm.PipelineTuningOptions
) -> llvm.PassBuilder:
    """Return a pass builder for one run, and count it."""
    pass_builders.made += 1
    return llvm.create_pass_builder(machine, options)


def run_passes(
    passes: llvm.ModulePassManager, module: llvm.ModuleRef, builder: llvm.PassBuilder
) -> None:
    """Run `passes` over `module` and free them.

    llvmlite never frees a pass manager: of its two base classes, the first disposes of nothing.
    A default pipeline takes 46 KB.
    """
    passes.run(module, builder)
    llvm.ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
    passes.detach()


def _promote_slots(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    builder = create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    run_passes(passes, module, builder)


def compile_object(
    text: str, target: Target, level: int, also: frozenset[str] = frozenset()
) -> bytes:
    """Return the object code of LLVM text; `level` is both the passes' and codegen's.

    The object may ask for allowed symbols and for those in `also`.
    """
    machine = create_target_machine(target, code_level(level))
    data: bytes = machine.emit_object(optimize_module(parse_module(text), machine, level))
    check_symbols(data, also=also)
    return data


def object_digest(text: str, target: Target, level: int) -> str:
    """Return a digest of all that the result of `compile_object` depends on."""
    options = llvm_options(level, target.triple)
    digest = hashlib.sha256(f"{machine_text(target)}\0{level}\0{options}\0".encode())
    digest.update(text.encode())
    return digest.hexdigest()


@cache
def machine_text(target: Target) -> str:
    """Return a text that differs for machines and versions of LLVM that make different code."""
    versions = (llvmlite.__version__, *llvmlite.binding.llvm_version_info)
    return f"{target}\0{versions}"


def optimized_text(text: str, target: Target, level: int) -> str:
    """Return LLVM text after LLVM's own passes of `level`."""
    machine = create_target_machine(target, code_level(level))
    return str(optimize_module(parse_module(text), machine, level))


def assembly_text(text: str, target: Target, level: int) -> str:
    """Return the assembly of LLVM text, compiled as `compile_object` does."""
    machine = create_target_machine(target, code_level(level))
    return str(machine.emit_assembly(optimize_module(parse_module(text), machine, level)))


def link_object(units: Sequence[tuple[str, int]], target: Target) -> bytes:
    """Return one object of several LLVM texts, each with the level of its passes."""
    machine = create_target_machine(target, max(code_level(level) for _, level in units))
    context = llvm.create_context()
    modules = [
        optimize_module(parse_module(text, context), machine, level) for text, level in units
    ]
    for other in modules[1:]:
        modules[0].link_in(other)
    data: bytes = machine.emit_object(modules[0])
    check_symbols(data)
    return data


def undefined_symbols(data: bytes) -> tuple[str, ...]:
    """Return the names that ELF object `data` expects from elsewhere, in the order of its table.

    Objects of another format yield nothing; their loader is handed allowed symbols only.
    """
    if data[:5] != b"\x7fELF\x02":
        return ()
    header = ELF64_HEADER.unpack_from(data)
    offset, size, count = header[6], header[11], header[12]
    sections = [*SECTION_HEADER.iter_unpack(data[offset : offset + size * count])]
    result: set[str] = set()
    for section in sections:
        if section[1] == _SYMBOL_TABLE_SECTION:
            first = section[4] + section[7] * SYMBOL.size  # those before are local, so defined
            symbols = SYMBOL.iter_unpack(data[first : section[4] + section[5]])
            names = sections[section[6]][4]
            for at in [names + name for name, _, _, place, _, _ in symbols if place == 0]:
                result.add(data[at : data.index(b"\0", at)].decode("ascii", "replace"))
    return tuple(sorted(result))


def check_symbols(data: bytes, *, also: frozenset[str] = frozenset()) -> None:
    """Assert that object `data` needs nothing but allowed symbols and those in `also`."""
    foreign = [s for s in undefined_symbols(data) if s not in ALLOWED_SYMBOLS and s not in also]
    if foreign:
        raise InternalError(f"generated code refers to unknown symbols: {', '.join(foreign)}")
