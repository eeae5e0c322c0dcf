"""A JAX function lowered by hloc: inspect it, run passes, call it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from hloc import driver
from hloc.analysis.diff.provenance import Origin, trace
from hloc.errors import HloError
from hloc.ir.events import Event
from hloc.ir.module import Module
from hloc.jax.arrays import from_numpy, to_arguments
from hloc.jax.installed import jax_package
from hloc.jax.lowering import Lowered
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions
from hloc.pjrt.records import COMPILATIONS, Compilation
from hloc.python_process import python_command, python_environment
from hloc.report.module_tools import Change, diff, memory_text
from hloc.report.repro_file import file_stem
from hloc.runtime.executable import Executable
from hloc.runtime.program_cache import KeptModule

_BEFORE, _AFTER = "from JAX", "after"


@dataclass(frozen=True, slots=True)
class _State:
    """The module before or after passes, for its history."""

    label: str
    module: Module
    events: Sequence[Event] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The provenance of an instruction; prints as lines."""

    origin: Origin

    def __str__(self) -> str:
        lines = [self.origin.line]
        if not self.origin.is_live:
            lines.append("  no longer in the module")
        if self.origin.source:
            lines.append(f"  from {self.origin.source}")
        lines += [f"  {cause.text}   <- {cause.by}" for cause in self.origin.causes]
        return "\n".join(lines if self.origin.causes else [*lines, "  no pass has touched it"])


@dataclass(eq=False)
class JaxProgram:
    """A JAX function lowered for arguments of certain shapes and types.

    Attributes:
        lowered: the result of JAX's lowering.
        options: options of hloc's compilation.
    """

    lowered: Lowered
    options: CompileOptions = field(default_factory=CompileOptions)

    # ---- inspect

    @cached_property
    def module(self) -> Module:
        """The module as JAX lowered it."""
        return self.lowered.module()

    def hlo(self, passes: str | None = None) -> str:
        """Return the HLO text from JAX, or after `passes` (`"algsimp,cse"`, `"-O2"`)."""
        module = self.module if passes is None else self.module.apply(passes)
        return module.to_text()

    def diff(self, passes: str = "-O2") -> Change:
        """Return what `passes` change: `print(program.diff("algsimp"))`.

        Raises:
            HloError: a pass that does not exist.
        """
        return diff(self.module, self.module.apply(passes))

    def why(self, name: str, passes: str = "-O2") -> History:
        """Return the rewrites of `passes` that led to the instruction `name`.

        Raises:
            HloError: neither JAX's module nor the one after `passes` has such an instruction.
        """
        name = name.removeprefix("%")
        after = self.module.apply(passes)
        states = [_State(_BEFORE, self.module), _State(_AFTER, after, tuple(after.log.events))]
        return History(trace(states, name))

    def memory(self) -> str:
        """Return the buffers of the compiled program and their peak."""
        return memory_text(self.module, self.options)

    def repl(self) -> int:
        """Open the module in hlo-repl, in this terminal; return its exit code."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"{file_stem(self.lowered.name.strip('<>'))}.hlo")
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(self.module.to_text(large_constants=True))
            command = python_command("-m", "repl", path)
            return subprocess.run(command, env=python_environment(), check=False).returncode

    # ---- run

    @cached_property
    def executable(self) -> Executable:
        """The machine code: NumPy arrays in, NumPy arrays out, one per leaf.

        Raises:
            HloError: hloc cannot compile one of its instructions.
        """
        started = time.perf_counter()
        run = driver.compile_proto(self.lowered.proto, self.lowered.name, self.options)
        assert isinstance(run, Executable)
        COMPILATIONS.append(
            Compilation(
                name=self.lowered.name,
                instructions=self.module.instruction_count,
                seconds=time.perf_counter() - started,
                was_kept=isinstance(run.compiled, KeptModule),
                proto=self.lowered.proto,
            )
        )
        return run

    @cached_property
    def run_leaves(self) -> Callable[[Sequence[Any]], list[Any]]:
        """The function from all argument leaves to all result leaves, which are JAX arrays."""
        executable, kept = self.executable, self.lowered.kept
        prepare = to_arguments([executable.parameters[i].numpy for i in range(len(kept))])
        finish = [from_numpy(result) for result in self.lowered.results]
        if len(executable.parameters) != len(kept) or len(executable.outputs) != len(finish):
            raise HloError(f"the boundary of {self.lowered.name} is not that of its HLO module")
        takes_all = kept == tuple(range(self.lowered.in_tree.num_leaves))

        def run(leaves: Sequence[Any]) -> list[Any]:
            used = leaves if takes_all else [leaves[number] for number in kept]
            results = executable(*prepare(used))
            return [make(result) for make, result in zip(finish, results, strict=True)]

        return run

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run it; arrays of JAX and NumPy are not copied, results are JAX arrays.

        Raises:
            HloError: arguments of another structure, shape or type than it was lowered for.
        """
        leaves, tree = jax_package("hloc.from_jax").tree.flatten((arguments, keywords))
        if tree != self.lowered.in_tree:
            raise HloError(
                f"{self.lowered.name} was lowered for other arguments: expected "
                f"{self.lowered.in_tree}, but got {tree}",
                notes=("static arguments are left out; hloc.jit lowers again for new shapes",),
            )
        return self.lowered.out_tree.unflatten(self.run_leaves(leaves))
