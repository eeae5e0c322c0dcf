"""GPU kernels: the launches of one step of the plan.

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
"""Default number of threads of a block."""

MAX_BLOCKS_YZ = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class GpuFunction:
    """One function, and its launch.

    Attributes:
        parameters: LLVM text of each.
        body: LLVM text from the first block to the closing brace.
        grid, block: launch dimensions.
        shared: definitions of arrays in shared memory.
        helpers: names of the functions `@gpu.*` that it calls.
        declarations: other declarations that it needs.
        dynamic_shared_bytes: shared memory requested at the launch.
        min_blocks: minimum of resident blocks per multiprocessor, 0 for none.
        tiled: arrays that are copied by tiles; the tensor map of each follows the pointers.
        takes_turns: persistent blocks: any number of blocks along x up to that of `grid` does all
            of the work; as many are launched as are resident.
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
        """Return the grid for a device with this many multiprocessors."""
        x, y, z = self.grid
        return (min(x, processors) if self.takes_turns else x, y, z)


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """The functions of one instruction or fusion.

    Attributes:
        functions: launched in this order, each after the one before has ended.
        scratch_bytes: size of the last argument, 0 if there is none.
        source: name of an instruction that it computes.
        library: the library call that precedes the functions.
    """

    name: str
    functions: tuple[GpuFunction, ...]
    scratch_bytes: int = 0
    source: str = ""
    library: LibraryCall | None = None
