"""Kernels of GPUs: what one step of the plan is launched as.

    kernel void @NAME(ptr %arg0, ..., ptr %argN)

All functions of a kernel take the same pointers: the arrays of the operands' leaves, those of the
result's, then scratch memory if the kernel needs any. They run one after another.
"""

from __future__ import annotations

from typing import TypeAlias

from hloc.codegen.gpu.library_call import LibraryCall
from hloc.codegen.gpu.tensor_map import TensorMapArgument
from hloc.lazy_dataclass import dataclass

Extent: TypeAlias = tuple[int, int, int]
"""Numbers of blocks, or of threads in a block, along x, y and z."""

BLOCK_THREADS = 256
"""Threads of a block where nothing asks for another number."""

MAX_BLOCKS_YZ = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class GpuFunction:
    """One function that is launched, and how.

    Attributes:
        parameters: LLVM text of each.
        body: LLVM text from the first block to the closing brace.
        grid, block: how many blocks of how many threads.
        shared: definitions of arrays in shared memory.
        helpers: names of the functions `@gpu.*` that it calls.
        declarations: what else it needs outside.
        dynamic_shared_bytes: shared memory requested at the launch.
        min_blocks: blocks that should fit on one processor at once, 0 if it does not matter.
        tiled: what it copies a tile at a time; a description of each follows the pointers.
        takes_turns: any number of blocks along x up to that of `grid` does all of the work; as
            many are launched as run at once.
    """

    name: str
    parameters: tuple[str, ...]
    body: str
    grid: Extent
    block: Extent
    shared: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    declarations: tuple[str, ...] = ()
    dynamic_shared_bytes: int = 0
    min_blocks: int = 0
    tiled: tuple[TensorMapArgument, ...] = ()
    takes_turns: bool = False

    @property
    def threads(self) -> int:
        """Threads of one block."""
        x, y, z = self.block
        return x * y * z

    def grid_on(self, processors: int) -> Extent:
        """Return how many blocks are launched on a device with this many multiprocessors."""
        x, y, z = self.grid
        return (min(x, processors) if self.takes_turns else x, y, z)


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """What one instruction or fusion becomes.

    Attributes:
        functions: launched in this order, each after the one before has ended.
        scratch_bytes: size of the last argument, 0 if there is none.
        source: name of an instruction that it was made for.
        library: what a library does before the functions run.
    """

    name: str
    functions: tuple[GpuFunction, ...]
    scratch_bytes: int = 0
    source: str = ""
    library: LibraryCall | None = None
