"""`hloc targets [NAME]`: the backends, and the machines that the backend `cpu` supports."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.talk import Talk
from hloc.codegen.backend import (
    Backend,
    backend_for,
    backend_origin,
    libraries_of,
    processors_of,
    takes_cpu,
)
from hloc.codegen.backend_names import backend_names
from hloc.codegen.llvm.machines import MACHINES, Machine, machine_named
from hloc.codegen.llvm.target import host_target, target_for
from hloc.errors import HloError
from hloc.report.exits import Exit
from hloc.report.json_report import json_report


def list_targets(arguments: Namespace, talk: Talk) -> int:
    """Print one line per backend and machine, or the details of one."""
    backends = backend_names()
    if arguments.format == "json":
        names = arguments.files or [*backends, *(row.arch for row in MACHINES)]
        found = [_backend_data(n) if n in backends else _machine_data(n) for n in names]
        talk.product(json_report("targets", {"targets": found}))
        return Exit.OK
    for name in arguments.files:
        lines = _backend(name) if name in backends else _machine(machine_named(name))
        talk.page("\n".join(lines))
    if not arguments.files:
        talk.page("\n".join(_all()))
    return Exit.OK


def _all() -> list[str]:
    lines = ["backends"]
    lines += [
        f"  {name:10s} {backend_origin(name):10s} {_summary(name)}" for name in backend_names()
    ]
    lines += ["", "machines for --target"]
    lines += [f"  {row.arch:10s} {row.triple:32s} {row.note}" for row in MACHINES]
    return [
        *lines,
        "",
        "`hloc targets NAME` tells the stages of one, or its processors for --mcpu.",
    ]


def _summary(name: str) -> str:
    """Return one line about a backend, or its error."""
    if name == "cpu":
        host = host_target()
        return f"this machine: {host.triple}, {host.cpu}, vectors of {host.vector_bits} bits"
    try:
        backend = backend_for(name)
    except HloError as fault:
        return fault.message
    return f"stages {', '.join(stage.name for stage in backend.stages)}"


def _backend(name: str) -> list[str]:
    backend = backend_for(name)
    lines = [
        f"{name}  {backend_origin(name)}",
        f"  {_purpose(backend)}",
        "",
        "  stages for --emit:",
    ]
    lines += [f"    {stage.name:16s} {stage.description}" for stage in backend.stages]
    processors = processors_of(backend)
    if processors:
        lines += ["", "  processors for --mcpu:"]
        lines += [f"    {cpu:16s} {summary}" for cpu, summary in processors.items()]
    libraries = libraries_of(backend)
    if libraries:
        lines += ["", f"  libraries for --use-library: {', '.join(libraries)}"]
    return lines


def _purpose(backend: Backend) -> str:
    named = "takes" if takes_cpu(backend) else "does not take"
    return f"{_first_line(backend)}  It {named} --mcpu and --mattr."


def _first_line(backend: Backend) -> str:
    """Return the first sentence of the documentation of a backend's class."""
    lines = (type(backend).__doc__ or "").strip().splitlines()
    return lines[0] if lines else "A backend without a description."


def _machine(row: Machine) -> list[str]:
    lines = [f"{row.arch}  {row.triple}", f"  {row.note}", "", "  processors for --mcpu:"]
    for cpu in row.cpus:
        found = target_for(row.triple, cpu)
        lines.append(f"    {cpu:16s} vectors of {found.vector_bits} bits")
    return lines


def _backend_data(name: str) -> dict[str, object]:
    """Return a backend as JSON data, or its error."""
    try:
        backend = backend_for(name)
    except HloError as fault:
        return {"name": name, "kind": "backend", "fault": fault.message}
    return {
        "name": name,
        "kind": "backend",
        "origin": backend_origin(name),
        "stages": {stage.name: stage.description for stage in backend.stages},
        "processors": list(processors_of(backend)),
        "libraries": list(libraries_of(backend)),
    }


def _machine_data(name: str) -> dict[str, object]:
    row = machine_named(name)
    about = {"triple": row.triple, "note": row.note, "processors": list(row.cpus)}
    return {"name": row.arch, "kind": "machine", **about}
