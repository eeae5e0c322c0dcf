"""The data structures of a launch, shared with Python."""

from __future__ import annotations

from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.llvm.structures import Structures

MOST_THREADS = 1024
_MOST_COPIES = 128
"""Most copies of a thread in flight: a warp that fills 48 KB has 96."""

STRUCTURES = Structures(f"""\
struct Launch: void* kernel, void* arguments, int64_t frames, int64_t frame_bytes, int64_t columns,
  int64_t rows, int64_t layers, int64_t count, int64_t is_reversed, Thread* threads,
  Copy* copies, Slot* slots, int64_t needed_bytes, int64_t site, int64_t block
struct Thread: void* handle, int64_t state, int64_t site, int64_t turn, int64_t first_copy,
  int64_t next_copy, int64_t groups
struct Copy: void* target, void* source, int64_t size_bytes, int64_t group
struct Slot: int64_t a, int64_t b, int64_t c, int64_t d
struct State: Launch* launch, int64_t fault, int32_t x, int32_t y, int32_t z
enum Waits: FOR_WARP=1, FOR_BLOCK=2, ENDED=3
enum Fault: FRAMES_TOO_SMALL=1, WARP_PARTED=2, BLOCK_PARTED=3, TOO_MANY_COPIES=4
enum Size: WARP={WARP_THREADS}, THREADS={MOST_THREADS}, COPIES={_MOST_COPIES}
""")
"""A launch runs `count` threads in each of columns * rows * layers blocks; its last three fields
report a fault: the bytes that a frame needs, the place in the text, the block.

A thread stopped in a state, at a site. Its copies are numbered from `first_copy` to `next_copy`. A
slot is 8 words of 32 bits; there are two for each thread, which it uses in `turn`.
"""
