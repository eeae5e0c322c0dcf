"""Partitioning functions of particular opcodes.

A function returns None where the general method is no worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.ir.instruction import Instruction
from hloc.opt.spmd.partitioners.convolution import partition_convolution
from hloc.opt.spmd.partitioners.dynamic_slices import (
    partition_dynamic_slice,
    partition_dynamic_update_slice,
)
from hloc.opt.spmd.partitioners.indexing import partition_gather, partition_scatter
from hloc.opt.spmd.partitioners.reductions import partition_reduce
from hloc.opt.spmd.partitioners.reshapes import partition_reshape
from hloc.opt.spmd.partitioners.select_and_scatter import partition_select_and_scatter
from hloc.opt.spmd.partitioners.windows import (
    partition_concatenate,
    partition_pad,
    partition_reduce_window,
    partition_reverse,
    partition_slice,
)
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.tiling import Tiling

PartitionFunction = Callable[
    [Region, Instruction, Sequence[Value], "Tiling | None"], "Value | tuple[Value, ...] | None"
]

PARTITIONERS: dict[str, PartitionFunction] = {
    "concatenate": partition_concatenate,
    "convolution": partition_convolution,
    "dynamic-slice": partition_dynamic_slice,
    "dynamic-update-slice": partition_dynamic_update_slice,
    "gather": partition_gather,
    "pad": partition_pad,
    "reduce": partition_reduce,
    "reduce-window": partition_reduce_window,
    "reverse": partition_reverse,
    "reshape": partition_reshape,
    "scatter": partition_scatter,
    "select-and-scatter": partition_select_and_scatter,
    "slice": partition_slice,
}
