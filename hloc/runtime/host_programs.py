"""Creates executables of compiled modules whose code runs in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hloc.codegen.backend import PlannedModule
from hloc.errors import UnsupportedError
from hloc.runtime.cpu_loader import load_objects
from hloc.runtime.executable import Executable, HostCode
from hloc.runtime.manifest import manifest_of, planned_manifest
from hloc.runtime.threads import team_for

if TYPE_CHECKING:
    from hloc.codegen.cpu.backend import CpuModule


def load_planned(compiled: PlannedModule, load: Callable[[], HostCode]) -> Executable:
    """Return an executable of a module of any backend whose code runs in this process.

    Args:
        compiled: the module, with hloc's plan.
        load: loads its machine code.

    Raises:
        HloError: it needs more memory than the limit, or than this machine has.
    """
    return Executable(
        compiled, planned_manifest(compiled), load, hosts=compiled.plan.host_functions
    )


def load_compiled(compiled: CpuModule) -> Executable:
    """Return an executable of a module compiled for the processor.

    Raises:
        UnsupportedError: it was compiled for another machine.
        HloError: it needs more memory than the limit, or than this machine has.
    """
    if not compiled.machine.is_host:
        machine = f"{compiled.machine.triple}, {compiled.machine.cpu}"
        raise UnsupportedError(f"code for {machine} cannot run on this machine")
    manifest = manifest_of(compiled)
    return Executable(
        compiled,
        manifest,
        lambda: load_objects(compiled.objects(), compiled.machine, manifest.combiners),
        team_for(manifest, compiled.machine, compiled.options),
        compiled.plan.host_functions,
    )
