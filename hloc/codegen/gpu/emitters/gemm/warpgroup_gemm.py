"""Gemms by warpgroups, whose tensor cores read both operands from shared memory.

A block has three warpgroups. One thread of the first (the producer) copies tiles into a ring of
stages; the other two (the consumers) multiply them, 64 rows of the block's tile each. Two barriers
per stage signal when it is full and when it is empty. A stage is released one step late, when the
multiplications of the next one are in flight. While a block writes one tile of the result, its ring
is filled for the next.

Where a side must be transposed, the other warps of the first warpgroup do that in place as soon as
a stage has arrived, which a third barrier signals; then they signal that it is full. Where the sums
of an instruction have few bits, a warpgroup waits for those of each stage and adds them in f32,
while the other one multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from hloc.analysis.gpu_devices import spec_of_chip
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile, TilePlan, estimated_time, plans_of
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.emitters.gemm.slab_writer import SLAB_COLUMNS, SLAB_ELEMENTS, SlabWriter
from hloc.codegen.gpu.emitters.gemm.split_k import join_parts
from hloc.codegen.gpu.emitters.gemm.tensor_core import plans_for as tensor_core_plans
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import Kind
from hloc.codegen.gpu.emitters.gemm.tensor_core_loader import moved
from hloc.codegen.gpu.emitters.gemm.tiled_gemm import tile_of_block
from hloc.codegen.gpu.emitters.gemm.warpgroup_kinds import (
    BLOCK_THREADS,
    ROW_BYTES,
    WarpgroupKind,
    warpgroup_kind_of,
)
from hloc.codegen.gpu.emitters.gemm.warpgroup_tiles import (
    STEP_ROW_BYTES,
    WarpgroupTile,
    can_be_tiles,
    own_group,
    through,
    units_of,
    word_of,
)
from hloc.codegen.gpu.emitters.gemm.warpgroup_transposer import Transposer
from hloc.codegen.gpu.helpers import WARP_THREADS, WARPGROUP_THREADS
from hloc.codegen.gpu.nvptx.chips import chip_of
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, S32, S64
from hloc.lazy_dataclass import dataclass

_GROUP_ROWS = 64
_CONSUMER_WARPS = 8
_TRANSPOSING_WARPS = 3
_STAGES = 4
_BARRIER_BYTES = 8
_ALIGNMENT = 1024
"""Alignment of tiles in shared memory, the period of the swizzle."""

_FEWEST_LINES, _FEWEST_DEPTH_BYTES = 128, ROW_BYTES
_PROCESSORS = spec_of_chip("sm_90").processors
"""Multiprocessors of the first GPU that has warpgroups."""


_Descriptors: TypeAlias = tuple[IndexValue, IndexValue]
"""Matrix descriptors of both sides."""


def has_warpgroups(target: Target) -> bool:
    """True if a chip has warpgroup instructions and tensor map copies."""
    return target.triple.startswith("nvptx") and chip_of(target).has_warpgroups


def kind_for(p: MatrixProblem) -> WarpgroupKind | None:
    """Return the instruction by which warpgroups compute `p`, None if they do not support it."""
    kind = warpgroup_kind_of(p)
    if kind is None or min(p.rows.count, p.columns.count) < _FEWEST_LINES:
        return None
    is_deep = p.depth.count * kind.size_bytes >= _FEWEST_DEPTH_BYTES
    return kind if is_deep and can_be_tiles(p) else None


def is_faster(p: MatrixProblem, kind: WarpgroupKind, other: Kind) -> bool:
    """True if the cost model prefers the large tiles of warpgroups to those of single warps."""
    # Sides along lines cost both of them time: single warps gather one element at a time.
    mine, theirs = plans_for(p, kind)[0], tensor_core_plans(p, other)[0]
    return estimated_time(mine) <= estimated_time(theirs)


def plans_for(p: MatrixProblem, kind: WarpgroupKind) -> list[TilePlan]:
    """Return the plans of all tiles, the best first."""

    def turned(tile: Tile) -> int:
        """Return the lines that must be transposed."""
        sides = ((p.left, tile.rows), (p.right, tile.columns))
        return sum(lines for side, lines in sides if kind.transposes(side))

    # Sides that are transposed arrive as squares, of which a tile must have a whole number.
    tiles = [tile for tile in kind.tiles if turned(tile) % kind.row_elements == 0]
    plans = plans_of(p, tiles, _PROCESSORS)
    return sorted(plans, key=lambda q: estimated_time(q) * _slowdown(q.tile, turned(q.tile)))


def _slowdown(tile: Tile, turned: int) -> float:
    """Return the time of a stage, relative to that of its products.

    Of any type, a multiprocessor multiplies 32 pairs of rows of 128 bytes per clock, and reads or
    writes one row. Either consumer reads its own rows and all columns; `turned` lines are read and
    written when they are transposed.
    """
    moved_rows = tile.rows + 2 * tile.columns + 2 * turned
    return max(moved_rows / (tile.rows * tile.columns / 32), 1.0)


def emit_warpgroup_gemm(
    w: LaunchWriter, p: MatrixProblem, plan: TilePlan, kind: WarpgroupKind
) -> None:
    """Write the launches of a product."""
    with w.launch((plan.blocks * plan.parts, 1, 1), (BLOCK_THREADS, 1, 1)) as k:
        _Writer(k, p, plan, kind).run()
    if plan.parts > 1:
        join_parts(w, p, plan.parts)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A tile of the result, or a part of the depth of one.

    Attributes:
        row, column: of its first element.
        first, steps: first tile of depth, and number of these.
        before: steps of earlier turns in the ring.
    """

    part: IndexValue
    batch: IndexValue
    row: IndexValue
    column: IndexValue
    first: IndexValue
    steps: IndexValue
    before: IndexValue


class _Writer:
    """Writes the function of one thread."""

    def __init__(
        self, k: GpuContext, p: MatrixProblem, plan: TilePlan, kind: WarpgroupKind
    ) -> None:
        """Divide shared memory into the ring, a slab of the result per warp, and barriers."""
        self.k, self.p, self.plan, self.tile, self.kind = k, p, plan, plan.tile, kind
        m, tile = k.math, plan.tile
        k.takes_turns = True
        self.left = WarpgroupTile(k, p, p.left, tile.rows, kind)
        self.right = WarpgroupTile(k, p, p.right, tile.columns, kind)
        self.transposes = self.left.squares + self.right.squares > 0
        self.stage_bytes = self.left.stage_bytes + self.right.stage_bytes
        ring = _STAGES * self.stage_bytes
        slab = SLAB_ELEMENTS * kind.sums.storage_bytes
        slabs = _CONSUMER_WARPS * slab
        barriers = _STAGES * _BARRIER_BYTES
        self.shared = k.dynamic_shared(ring + slabs + 3 * barriers, _ALIGNMENT)
        self.full = moved(k, self.shared, ring + slabs)
        self.empty = moved(k, self.full, barriers)
        self.arrived = moved(k, self.empty, barriers) if self.transposes else self.full
        order = "".join("d" if side.by_depth else "l" for side in (self.left, self.right))
        self.multiply = f"warpgroup.multiply.{kind.name}.{tile.columns}.{order}"
        self.finish = f"warpgroup.finish.{tile.columns}{'' if kind.sums is F32 else '.s32'}"
        self.count = tile.columns // 2
        self.slots = k.b.allocate(kind.sums, self.count)
        self.totals = k.b.allocate(kind.sums, self.count) if kind.promotes else self.slots
        self.done = k.b.allocate(S64)
        self.turns = plan.blocks * plan.parts
        self.stride: IndexValue = k.blocks_launched() if self.turns > 1 else 1
        self.group = own_group(k)
        self.lane = m.rem(k.thread("x"), WARP_THREADS)
        self.warp = m.div(k.thread("x"), WARP_THREADS)  # the first consumer is number 4
        at = moved(k, self.shared, m.add(ring, m.mul(m.rem(self.warp, _CONSUMER_WARPS), slab)))
        self.slabs = SlabWriter(k, p, tile, plan.parts, at, self.lane)

    def run(self) -> None:
        """Write all of it."""
        k, m = self.k, self.k.math
        role = ".transposing" if self.transposes else ""
        with k.body.when(m.compare("EQ", k.thread("x"), 0)):
            for stage in range(_STAGES):
                arrivals = {self.arrived: 1, self.empty: _CONSUMER_WARPS}
                if self.transposes:
                    arrivals[self.full] = _TRANSPOSING_WARPS
                for barrier, count in arrivals.items():
                    k.call("phase.init", self._barrier(barrier, stage), k.b.const(S32, count))
            k.call("phase.publish")
            self.left.prepare()
            self.right.prepare()
        k.barrier()
        with k.body.when(m.compare("EQ", self.group, 0)):
            k.call(f"warpgroup.few_registers{role}")
            with k.body.when(m.compare("EQ", k.thread("x"), 0)), self._turns() as turn:
                self._produce(turn)
            if self.transposes:
                is_transposing = m.compare("GE", k.thread("x"), WARP_THREADS)
                with k.body.when(is_transposing), self._turns() as turn:
                    self._transpose(turn)
        with k.body.when(m.compare("NE", self.group, 0)):
            k.call(f"warpgroup.many_registers{role}")
            first_stage = self._descriptors()
            with self._turns() as turn:
                self._multiply(turn, first_stage)
                self._write(turn)

    @contextmanager
    def _turns(self) -> Iterator[_Turn]:
        """Run the region for every tile of this block."""
        k, m, plan = self.k, self.k.math, self.plan
        k.b.store(self.done, 0, k.b.const(S64, 0))
        with k.body.loop(k.block_index("x"), self.turns, self.stride) as number:
            part, block = m.delinear(number, [plan.parts, plan.blocks])
            batch, row, column = tile_of_block(k, plan, block)
            first = m.mul(part, plan.steps)
            all_steps = -(-self.p.depth.count // self.tile.depth)
            steps: IndexValue = plan.steps
            if all_steps % plan.steps:
                steps = m.minimum(plan.steps, m.sub(all_steps, first))
            before = k.b.load(self.done, S64, 0)
            origin = (m.mul(row, self.tile.rows), m.mul(column, self.tile.columns))
            yield _Turn(part, batch, *origin, first, steps, before)
            k.b.store(self.done, 0, m.value(m.add(before, steps)))

    def _barrier(self, first: Value, stage: IndexValue) -> Value:
        return moved(self.k, first, self.k.math.mul(stage, _BARRIER_BYTES))

    def _place(self, turn: _Turn, step: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return the stage of a step, and the parity of the phase in which it is filled."""
        m = self.k.math
        number = m.add(turn.before, step)
        return m.rem(number, _STAGES), m.rem(m.div(number, _STAGES), 2)

    # ---- the producer

    def _produce(self, turn: _Turn) -> None:
        """Copy stage after stage, each as soon as it is empty."""
        k, m = self.k, self.k.math
        batches = m.delinear(turn.batch, self.p.batch.sizes)
        with k.body.loop(0, turn.steps) as step:
            stage, parity = self._place(turn, step)
            k.call("phase.wait", self._barrier(self.empty, stage), word_of(k, m.sub(1, parity)))
            arrived = self._barrier(self.arrived, stage)
            k.call("phase.expect", arrived, k.b.const(S32, self.stage_bytes))
            depth = m.mul(m.add(turn.first, step), self.tile.depth)
            target = moved(k, self.shared, m.mul(stage, self.stage_bytes))
            self.left.copy(target, arrived, batches, turn.row, depth)
            target = moved(k, target, self.left.stage_bytes)
            self.right.copy(target, arrived, batches, turn.column, depth)

    def _transpose(self, turn: _Turn) -> None:
        """Transpose stage after stage, each as soon as it has arrived."""
        k, m = self.k, self.k.math
        transposer = Transposer(k, self.kind, self.lane)
        first = 0 if self.left.squares else self.left.stage_bytes
        squares = self.left.squares + self.right.squares
        with k.body.loop(0, turn.steps) as step:
            stage, parity = self._place(turn, step)
            k.call("phase.wait", self._barrier(self.arrived, stage), word_of(k, parity))
            base = moved(k, self.shared, m.add(m.mul(stage, self.stage_bytes), first))
            transposer.run(base, squares, m.sub(self.warp, 1), _TRANSPOSING_WARPS)
            k.call("phase.publish")
            k.call("warp_barrier")
            is_first_lane = k.b.convert(m.compare("EQ", self.lane, 0), S32)
            k.call("phase.arrive", self._barrier(self.full, stage), is_first_lane)

    # ---- the consumers

    def _descriptors(self) -> _Descriptors:
        """Return the matrix descriptors of both sides of the first stage."""
        k, m = self.k, self.k.math
        units = units_of(k, self.shared)
        own = m.mul(m.sub(self.group, 1), _GROUP_ROWS * ROW_BYTES // 16)
        left = self.left.descriptor(m.add(units, own))
        return left, self.right.descriptor(m.add(units, self.left.stage_bytes // 16))

    def _multiply(self, turn: _Turn, first_stage: _Descriptors) -> None:
        """Multiply stage after stage, each as soon as it is full."""
        if self.kind.promotes:
            self._multiply_and_promote(turn, first_stage)
            return
        k, m = self.k, self.k.math
        is_first_lane = m.compare("EQ", self.lane, 0)
        with k.body.loop(0, turn.steps) as step:
            self._begin(turn, step, first_stage, before=step)
            k.call("warpgroup.wait.1")
            self._give_back(turn, step, k.b.and_(is_first_lane, m.compare("GT", step, 0)))
        self._through(self.finish)
        self._give_back(turn, turn.steps, is_first_lane)

    def _multiply_and_promote(self, turn: _Turn, first_stage: _Descriptors) -> None:
        """Multiply stage after stage; the sums of each are added to the totals."""
        k, m, dtype = self.k, self.k.math, self.kind.sums
        is_first_lane = m.compare("EQ", self.lane, 0)
        for number in range(self.count):
            k.b.store(self.totals, number, k.b.const(dtype, 0))
        with k.body.loop(0, turn.steps) as step:
            self._begin(turn, step, first_stage, before=0)
            self._through(self.finish)
            self._give_back(turn, m.add(step, 1), is_first_lane)
            for number in range(self.count):
                total, addend = (
                    k.b.load(slots, dtype, number) for slots in (self.totals, self.slots)
                )
                k.b.store(self.totals, number, k.b.fadd(total, addend))

    def _give_back(self, turn: _Turn, step: IndexValue, arrives: Value) -> None:
        """Release the stage before that of `step`, if `arrives` holds."""
        k, m = self.k, self.k.math
        behind, _ = self._place(turn, m.add(step, _STAGES - 1))
        k.call("phase.arrive", self._barrier(self.empty, behind), k.b.convert(arrives, S32))

    def _begin(
        self, turn: _Turn, step: IndexValue, first_stage: _Descriptors, *, before: IndexValue
    ) -> None:
        """Issue the multiplications of a stage when it is full.

        Args:
            turn: the tile of the result.
            step: number of the stage in the turn.
            first_stage: matrix descriptors of the first stage.
            before: stages that are in the accumulators; if 0, they are initialised.
        """
        k, m = self.k, self.k.math
        stage, parity = self._place(turn, step)
        k.call("phase.wait", self._barrier(self.full, stage), word_of(k, parity))
        moved_by = m.mul(stage, self.stage_bytes // 16)
        left, right = (m.add(descriptor, moved_by) for descriptor in first_stage)
        k.call("warpgroup.begin")
        for number in range(ROW_BYTES // STEP_ROW_BYTES):
            sides = [
                m.value(m.add(descriptor, side.step(number)))
                for side, descriptor in ((self.left, left), (self.right, right))
            ]
            keep = k.b.const(S32, 1) if number else word_of(k, before)
            self._through(self.multiply, *sides, keep)
        k.call("warpgroup.commit")

    def _through(self, helper: str, *others: Value) -> None:
        """Call a helper that takes and returns all accumulators."""
        through(self.k, self.slots, self.tile.columns, helper, *others, dtype=self.kind.sums)

    # ---- the result

    def _write(self, turn: _Turn) -> None:
        """Write the sums, 16 rows and 32 columns of a warp at a time."""
        k, m = self.k, self.k.math
        down = m.mul(m.sub(self.warp, WARPGROUP_THREADS // WARP_THREADS), 16)
        row = m.add(turn.row, down)
        per_piece = SLAB_COLUMNS // 2
        for number in range(self.tile.columns // SLAB_COLUMNS):
            first = number * per_piece
            sums = [k.b.load(self.totals, self.kind.sums, first + i) for i in range(per_piece)]
            column = m.add(turn.column, number * SLAB_COLUMNS)
            self.slabs.write((turn.part, turn.batch), row, column, sums)
