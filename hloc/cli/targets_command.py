"""`hloc targets [NAME]`: the machines that code can be made for."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.exits import Exit
from hloc.cli.talk import Talk
from hloc.codegen.backend import backend_names
from hloc.codegen.target import Target, host_target, target_for
from hloc.codegen.target_table import MACHINES, Machine, machine_named


def list_targets(arguments: Namespace, talk: Talk) -> int:
    """Print one line per target, or all of one."""
    for name in arguments.files:
        talk.product(_described(machine_named(name)))
    if not arguments.files:
        talk.product("\n".join(_all()))
    return Exit.OK


def _all() -> list[str]:
    host = host_target()
    lines = ["backends"]
    lines += [f"  {name:10s} {_backend(name, host)}".rstrip() for name in backend_names()]
    lines += ["", "machines for --target"]
    lines += [f"  {row.arch:10s} {row.triple:32s} {row.note}" for row in MACHINES]
    return [*lines, "", "`hloc targets NAME` lists the processors of one for --mcpu."]


def _backend(name: str, host: Target) -> str:
    if name != "cpu":
        return "a plug-in"
    return f"this machine: {host.triple}, {host.cpu}, vectors of {host.vector_bits} bits"


def _described(row: Machine) -> str:
    lines = [f"{row.arch}  {row.triple}", f"  {row.note}", "", "  processors for --mcpu:"]
    for cpu in row.cpus:
        found = target_for(row.triple, cpu)
        lines.append(f"    {cpu:16s} vectors of {found.vector_bits} bits")
    return "\n".join(lines)
