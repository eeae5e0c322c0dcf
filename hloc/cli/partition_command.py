"""`hloc partition FILE`: the per-device program of an annotated program."""

from __future__ import annotations

from argparse import Namespace
from math import prod

from hloc import driver
from hloc.cli.emit import deliver_module
from hloc.cli.talk import Talk
from hloc.report.exits import Exit
from hloc.report.source_input import need_files, read_module, shown_name


def partition_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc partition FILE [--mesh=x=4,y=2] [-o FILE]`."""
    (file,) = need_files(arguments.files, exactly=1)
    devices = prod(size for _, size in arguments.mesh) if arguments.mesh else 0
    module = driver.partition(read_module(file), devices)
    if module.config.num_partitions == 1:
        talk.say(f"{shown_name(file)}: no sharding names several devices; nothing to partition")
    deliver_module(module, arguments, talk)
    return Exit.OK
