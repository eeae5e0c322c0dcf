"""The backend for the host processor: LLVM IR text, then objects."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from importlib import import_module

from hloc.analysis.call_graph import has_opcode
from hloc.codegen.backend import Stage
from hloc.codegen.cpu.emitters import table
from hloc.codegen.cpu.entry_function import split_routines
from hloc.codegen.cpu.kernel import Kernel, emit_kernel, needs_defusion, plan_kernel, routine_names
from hloc.codegen.cpu.kernel_tuning import KernelTuning
from hloc.codegen.cpu.libraries import NAMES, call_libraries
from hloc.codegen.cpu.llvm_units import (
    called_once,
    float_mode,
    is_short,
    kernel_units,
    llvm_level,
    units_of,
)
from hloc.codegen.cpu.loop_function import loop_functions, only_inlined
from hloc.codegen.cpu.side_by_side import group_scratch_bytes, groups_of
from hloc.codegen.cpu.split_kernel import worker_bytes
from hloc.codegen.cpu.subnormals import asks_to_flush
from hloc.codegen.cpu.weight_panels import lay_out_weights
from hloc.codegen.kernels.lanes import fills_vectors
from hloc.codegen.llvm.compile_pool import Unit, process_count
from hloc.codegen.llvm.object_cache import MachineCode, cached_objects
from hloc.codegen.llvm.object_file import (
    assembly_text,
    link_object,
    optimized_text,
)
from hloc.codegen.llvm.target import Target, target_for
from hloc.codegen.lower.hidden_sizes import DynamicBoundary
from hloc.codegen.plan.kernel_request import kernel_symbol
from hloc.codegen.plan.plan import Plan
from hloc.codegen.plan.planning import KernelRules, PlannedProgram, plan_program
from hloc.errors import Diagnostic, HloError, UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.memory.allocation import BufferReport
from hloc.memory.heap import PackFunction, pack
from hloc.memory.usage import buffers_text
from hloc.options import CompileOptions

_STACK_BYTES = 64 << 10

STAGES = (
    Stage("hlo", "the module after all passes, in the order it runs", ".hlo"),
    Stage("buffers", "bytes of memory by kind, and the place and time of every buffer", ".txt"),
    Stage("llvm-ir", "LLVM IR as hloc writes it", ".ll"),
    Stage("llvm-ir-opt", "LLVM IR after LLVM's own passes", ".ll"),
    Stage("asm", "assembly", ".s"),
    Stage("object", "one object file", ".o", is_text=False),
)


@dataclass(slots=True, eq=False)
class CpuModule:
    """A compiled module; objects and texts are generated on demand and kept.

    Attributes:
        module: as it was scheduled; not to be changed.
        arranged: `plan` with independent kernels side by side.
        boundary: parameters and results behind the declared ones, for dynamic sizes.
        units: LLVM texts, that of the control flow first.
        assignment_seconds: time for the schedule and the buffer assignment.
        code: the objects, none until they are needed.
        tuning: what autotuning found about kernels.
    """

    module: Module
    plan: Plan
    arranged: Plan
    kernels: tuple[Kernel, ...]
    units: tuple[Unit, ...]
    machine: Target
    options: CompileOptions
    boundary: DynamicBoundary = field(default_factory=DynamicBoundary)
    assignment_seconds: float = 0.0
    target: str = "cpu"
    stages: tuple[Stage, ...] = STAGES
    tuning: tuple[KernelTuning, ...] = ()
    code: MachineCode = MachineCode(())

    @property
    def buffers(self) -> BufferReport:
        """Bytes of memory by kind."""
        return self.plan.assignment.report

    @property
    def is_split(self) -> bool:
        """True if threads can share a kernel."""
        has_split = any(kernel.split is not None for kernel in self.kernels)
        return has_split or bool(groups_of(self.arranged))

    @property
    def worker_bytes(self) -> int:
        """Memory that each thread but the first needs."""
        sizes = [kernel.scratch_bytes for kernel in self.kernels if kernel.split is not None]
        sizes += [group_scratch_bytes(group, self.kernels) for group in groups_of(self.arranged)]
        return worker_bytes(max(sizes, default=0))

    def objects(self) -> tuple[bytes, ...]:
        """Return the objects of all units, which refer to each other."""
        if not self.code.objects:
            functions = frozenset(
                name for kernel in self.kernels for name in (kernel.name, *routine_names(kernel))
            )
            loops = loop_functions(self.plan, self.kernels)
            functions |= {loop.name for loop in loops.values()}
            mode = float_mode(self.machine, self.options)
            splits = split_routines(self.arranged, self.kernels, loops, mode)
            functions |= {symbol for routine in splits for symbol in routine.symbols}
            processes = process_count(self.options.threads)
            self.code = cached_objects(self.units, self.machine, functions, processes)
        return self.code.objects

    def stage(self, name: str) -> str | bytes:
        """Return the form called `name`: text, or bytes for `object`.

        Raises:
            HloError: there is no such stage.
        """
        if name == "hlo":
            return self.module.to_text(style="short", large_constants=True)
        if name == "buffers":
            return buffers_text(self.plan.assignment)
        if name == "llvm-ir":
            return "\n".join(unit.text for unit in self.units)
        if name == "object":
            return link_object([(unit.text, unit.level) for unit in self.units], self.machine)
        forms = {"llvm-ir-opt": optimized_text, "asm": assembly_text}
        if name not in forms:
            known = ", ".join(stage.name for stage in self.stages)
            raise HloError(f"there is no stage {name!r}; stages are {known}")
        return "\n".join(forms[name](unit.text, self.machine, unit.level) for unit in self.units)


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """The built-in backend `cpu`.

    Attributes:
        pack: places temporaries in memory.
        share_outputs: temporaries may lie in outputs that are not written yet.
        stack_bytes: scratch memory of a kernel up to this size is on the stack.
        takes_cpu: the user may name a processor and features.
        libraries: names of libraries that can replace kernels.
    """

    name: str = "cpu"
    stages: tuple[Stage, ...] = STAGES
    pack: PackFunction = pack
    share_outputs: bool = True
    stack_bytes: int = _STACK_BYTES
    takes_cpu: bool = True
    libraries: tuple[str, ...] = NAMES

    def compile(self, module: Module, options: CompileOptions) -> CpuModule:
        """Compile an optimised module, which is changed.

        Raises:
            UnsupportedError: lists all instructions that cannot run on a CPU, with reasons.
            HloError: constants are elided in the text; see `CompileOptions.fill_constants`.
        """
        machine = target_for(options.triple, options.cpu, options.features)
        if asks_to_flush(module):
            options = replace(options, flush_subnormals=True)
        program = self.plan(module, options)
        kernels = _emit_kernels(program.plan, machine, self.stack_bytes, {})
        arranged, units = units_of(program.plan, kernels, machine, options)
        return CpuModule(
            module,
            program.plan,
            arranged,
            kernels,
            units,
            machine,
            options,
            program.boundary,
            program.assignment_seconds,
        )

    def preload(self) -> None:
        """Import the lowering and the emitters that only some programs need."""
        import_module("hloc.codegen.lower.linear_algebra")
        table.import_all()

    def plan(self, module: Module, options: CompileOptions) -> PlannedProgram:
        """Lower an optimised module in place, and plan how it runs.

        Raises:
            UnsupportedError, HloError: as `compile`.
        """
        call_libraries(module, options.use_library)
        if has_opcode(module, "custom-call"):
            from hloc.codegen.lower.linear_algebra import own_linear_algebra

            own_linear_algebra(module, with_lapack=not (options.standalone or options.triple))
        machine = target_for(options.triple, options.cpu, options.features)
        rules = KernelRules(
            plan_kernel,
            needs_defusion,
            stack_bytes=self.stack_bytes,
            pack=self.pack,
            share_outputs=self.share_outputs,
            exchanges=True,
            collapses_dimensions=True,
            arrange=partial(lay_out_weights, target=machine),
        )
        return plan_program(module, options, rules)

    def for_machine(self, compiled: CpuModule, machine: Target) -> CpuModule:
        """Return `compiled` with kernels for another processor, and the same plan.

        Raises:
            UnsupportedError: lists all kernels that cannot be emitted for it.
        """
        return self._emitted(compiled, machine, {})

    def with_choices(self, compiled: CpuModule, choices: Mapping[int, Hashable]) -> CpuModule:
        """Return `compiled` with kernels of these numbers emitted as chosen (`choices_of`)."""
        return self._emitted(compiled, compiled.machine, choices)

    def alternatives(
        self, compiled: CpuModule, number: int, choices: Sequence[Hashable]
    ) -> tuple[list[Kernel], tuple[Unit, ...]]:
        """Return kernel `number` emitted in several ways, each with a name, and their code."""
        plan, machine, options = compiled.plan, compiled.machine, compiled.options
        request, symbol = plan.kernels[number], kernel_symbol(plan.keys[number])
        is_repeated = number not in called_once(plan)
        with_lanes = _has_lanes(request.inst, machine, is_repeated=is_repeated)
        kernels = [
            emit_kernel(
                request,
                f"{symbol}_c{i}",
                machine,
                stack_bytes=self.stack_bytes,
                with_lanes=with_lanes,
                is_repeated=is_repeated,
                choice=choice,
            )
            for i, choice in enumerate(choices)
        ]
        level = llvm_level(kernels[0], request.inst, max(options.opt_level, 1))
        routines = dict.fromkeys(routine for kernel in kernels for routine in kernel.routines)
        units = (
            *kernel_units(kernels, level, machine, float_mode(machine, options)),
            *(Unit(r.source, r.level, r.name) for r in routines),
        )
        return kernels, units

    def _emitted(
        self, compiled: CpuModule, machine: Target, choices: Mapping[int, Hashable]
    ) -> CpuModule:
        kernels = _emit_kernels(compiled.plan, machine, self.stack_bytes, choices)
        arranged, units = units_of(compiled.plan, kernels, machine, compiled.options)
        return replace(
            compiled,
            arranged=arranged,
            kernels=kernels,
            units=units,
            machine=machine,
            code=MachineCode(()),
        )


_SHORT_ARGMAX = 8
"""Instructions of a reducer that only compares two values: parameters, selects and their tuple."""


def _has_lanes(inst: Instruction, machine: Target, *, is_repeated: bool) -> bool:
    """True if a kernel is emitted in lanes; LLVM vectorises most short ones within loops.

    It does not vectorise an argmax along columns that knows NaN and ties, as JAX writes it: a
    Viterbi step takes 0.15 of the time in lanes. Of sums of exponentials along columns it unrolls
    the loops: a step of a hidden Markov model with 6 to 12 states compiles in half of the time in
    lanes, and runs in 0.98 to 0.14 of it.
    """
    return not is_repeated or not is_short(inst, machine) or _folds_columns(inst)


def _folds_columns(inst: Instruction) -> bool:
    """True if a reduction with many steps, or of elementary functions, has results side by side."""
    members = inst.called[0].instructions if inst.is_a("fusion") else (inst,)
    computed = [m.array.elements for m in members if m.opcode.transcendental]
    for reduction in (m for m in members if m.is_a("reduce")):
        array = reduction.operands[0].array
        is_long = len(reduction.called[0]) > _SHORT_ARGMAX or array.elements in computed
        reduced = reduction.attributes.dimensions
        if is_long and array.dims and array.minor_to_major[0] not in reduced:
            return True
    return False


def _emit_kernels(
    plan: Plan, machine: Target, stack_bytes: int, choices: Mapping[int, Hashable]
) -> tuple[Kernel, ...]:
    """Emit all kernels; raises one `UnsupportedError` for all that cannot be emitted.

    Kernels for a loop's function that turn out not to become part of one are emitted again.
    """
    kernels: list[Kernel] = []
    faults: list[Diagnostic] = []
    once = called_once(plan)

    def emit(number: int, *, with_lanes: bool, is_inlined: bool = False) -> Kernel:
        return emit_kernel(
            plan.kernels[number],
            kernel_symbol(plan.keys[number]),
            machine,
            stack_bytes=stack_bytes,
            with_lanes=with_lanes,
            is_repeated=number not in once,
            is_inlined=is_inlined,
            choice=choices.get(number),
        )

    short = []
    for number, request in enumerate(plan.kernels):
        inst, is_repeated = request.inst, number not in once
        with_lanes = _has_lanes(inst, machine, is_repeated=is_repeated)
        is_state = is_repeated and fills_vectors(inst, machine)
        if not with_lanes or is_state:
            short.append(number)
        try:
            kernels.append(emit(number, with_lanes=with_lanes or is_state, is_inlined=is_state))
        except UnsupportedError as fault:
            faults += fault.diagnostics
    if faults:
        raise UnsupportedError(faults)
    inlined = only_inlined(plan, loop_functions(plan, kernels)) if short else frozenset()
    for number in short:
        if number not in inlined:
            kernels[number] = emit(number, with_lanes=True)
    return tuple(kernels)
