"""Implementation of the module methods in `hloc.ir.module_tools`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hloc import driver
from hloc.analysis.diff.diff_rows import DiffTable, diff_table
from hloc.analysis.diff.file_diff import table_of_modules
from hloc.analysis.statistics import ModuleStatistics, module_statistics
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.events import Event
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.notebook import PrintedView
from hloc.ir.print_order import computation_order, instruction_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.parameter_binding import bind_parameters
from hloc.opt.pattern import match
from hloc.opt.pattern_text import parse_pattern
from hloc.options import CompileOptions
from hloc.pictures.roofline import Kernel, Roofs
from hloc.report.diff.diff_lines import DiffView, plain, unified_lines
from hloc.report.memory_report import memory_lines
from hloc.report.roofline_table import roofline_table
from hloc.report.statistics_text import largest_arrays, overview

if TYPE_CHECKING:
    from hloc.codegen.cpu.backend import CpuModule

_LEVELS = ("-O0", "-O1", "-O2", "-O3")
_MOST_DRAWN = 50_000


@dataclass(frozen=True, slots=True)
class Statistics:
    """Composition and cost of a module; prints as `hloc stats` does."""

    figures: ModuleStatistics

    def __str__(self) -> str:
        lines = overview(self.figures, self.figures.name)
        return "\n".join([*lines, "", *largest_arrays(self.figures)])


@dataclass(frozen=True, slots=True)
class Change(PrintedView):
    """The differences of two modules; printed as lines, drawn in notebooks.

    Attributes:
        rows: the diff as data.
        after: the other module.
    """

    rows: DiffTable
    after: Module

    @property
    def is_empty(self) -> bool:
        """True if the modules are equal."""
        return self.rows.is_empty

    def __str__(self) -> str:
        if self.is_empty:
            return "no difference"
        lines = map(plain, unified_lines(DiffView(self.rows)))
        return "\n".join([*lines, self.rows.summary()])

    def _repr_html_(self) -> str | None:
        return self.rows._repr_html_()


@dataclass(frozen=True, slots=True)
class Graph(PrintedView):
    """A module as a graph, drawn in notebooks.

    Attributes:
        module: the module to draw.
        before: an earlier module; changes since then are marked; None marks none.
    """

    module: Module
    before: Module | None = None

    def __str__(self) -> str:
        return f"graph of {self.module!r}: notebooks draw it, `hloc graph FILE -o OUT.svg` too"


class MemoryReport(PrintedView, str):
    """The buffers of a compiled module, as text; notebooks draw the arena.

    Attributes:
        compiled: the module, lowered for the CPU.
    """

    compiled: CpuModule


@dataclass(frozen=True, slots=True)
class Roofline(PrintedView):
    """The kernels of a module and the peaks of this machine; prints as a table.

    Attributes:
        name: name of the module.
    """

    name: str
    roofs: Roofs
    kernels: tuple[Kernel, ...]

    def __str__(self) -> str:
        return "\n".join(roofline_table(self.roofs, self.kernels)) or "no kernels"


def stats(module: Module) -> Statistics:
    """Return the statistics of `module`."""
    return Statistics(module_statistics(module))


def apply(module: Module, passes: str) -> Module:
    """Return `module` after `passes`, with their changes in the change log."""
    found = clone_module(module)
    found.log.events += module.log.events
    if passes in _LEVELS:
        driver.optimise(found, CompileOptions(opt_level=int(passes[2])))
    else:
        driver.optimise(found, CompileOptions(passes=passes))
    return found


def diff(old: Module, new: Module) -> Change:
    """Return what is different in `new`."""
    if old.family is new.family:
        return Change(diff_table(old, new, events_between(old, new)), new)
    return Change(table_of_modules(old, new), new)


def events_between(old: Module, new: Module) -> tuple[Event, ...]:
    """Return the events from `old` to `new`; () if `new` does not come from it."""
    known = old.log.events
    made_from = all(a is b for a, b in zip(known, new.log.events, strict=False))
    return new.log.since(len(known)) if made_from and len(known) <= len(new.log.events) else ()


def graph(module: Module, before: Module | None) -> Graph:
    """Return the graph of `module`, with the differences from `before` marked."""
    if module.instruction_count > _MOST_DRAWN:
        raise HloError(
            f"the module has {module.instruction_count:,} instructions; "
            f"graphs are drawn up to {_MOST_DRAWN:,}"
        )
    return Graph(module, before)


def bind(module: Module, values: Mapping[int, Any] | Mapping[str, Any]) -> Module:
    """Return a new module in which these parameters are constants."""
    return bind_parameters(module, values)


def memory(module: Module, opt_level: int) -> MemoryReport:
    """Return the buffers of the program compiled from `module` at an optimisation level."""
    return memory_text(module, CompileOptions(opt_level=opt_level))


def memory_text(module: Module, options: CompileOptions) -> MemoryReport:
    """Return the buffers of the program compiled from `module` with `options`."""
    from hloc.codegen.cpu.backend import CpuModule

    module = clone_module(module)
    driver.optimise(module, options)
    compiled = driver.generate(module, options)
    assert isinstance(compiled, CpuModule)
    found = MemoryReport("\n".join(memory_lines(compiled.plan.assignment)))
    found.compiled = compiled
    return found


def roofline(module: Module, opt_level: int, run: bool) -> Roofline:
    """Return the kernels of `module` at an optimisation level, and the machine's peaks."""
    from hloc.report.roofline_kernels import measured_kernels, modelled_kernels
    from hloc.runtime.machine_peaks import measure_peaks

    module = clone_module(module)
    driver.optimise(module, CompileOptions(opt_level=opt_level))
    peaks = measure_peaks()
    roofs = Roofs(peaks.flops, peaks.memories)
    found = modelled_kernels(module, roofs)
    if run:
        found = measured_kernels(found, lambda _: None)
    return Roofline(module.name, roofs, tuple(kernel for _, kernel in found))


def find(module: Module, pattern: str) -> tuple[Instruction, ...]:
    """Return the instructions that match `pattern`, operands before users."""
    wanted = parse_pattern(pattern)
    return tuple(
        inst
        for computation in computation_order(module)
        for inst in instruction_order(computation)
        if match(wanted, inst) is not None
    )
