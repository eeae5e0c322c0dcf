"""Attention by warpgroups, whose tensor cores read queries, keys and values from shared memory.

A block has three warpgroups. One thread of the first (the producer) copies the queries, then keys
and values tile by tile; the other two (the consumers) have 64 queries each. While the tensor cores
multiply the values of one tile, a consumer computes the softmax of the next one: the scores of a
tile are issued before the values of the tile before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.collectives import shuffle
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.attention.attention_block import QueryBlock
from hloc.codegen.gpu.emitters.attention.attention_fragments import Fragments
from hloc.codegen.gpu.emitters.attention.attention_ring import (
    CONSUMER_WARPS,
    STEP_DEPTH,
    AttentionRing,
    rounded,
)
from hloc.codegen.gpu.emitters.attention.attention_softmax import OnlineSoftmax
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile
from hloc.codegen.gpu.emitters.gemm.slab_writer import SLAB_COLUMNS, SlabWriter
from hloc.codegen.gpu.emitters.gemm.warpgroup_tiles import own_group, through
from hloc.codegen.gpu.helpers import WARP_THREADS, WARPGROUP_THREADS
from hloc.dtypes import S32, S64

_GROUP_ROWS = 64
_GROUP_WARPS = WARPGROUP_THREADS // WARP_THREADS
_CONSUMER_THREADS = CONSUMER_WARPS * WARP_THREADS


class WarpgroupAttention:
    """Writes the function of one thread."""

    def __init__(self, k: GpuContext, spread: Spread) -> None:
        """Choose the instructions of both gemms, and number the warps that compute."""
        self.k, self.spread = k, spread
        m, loops = k.math, spread.problem.loops
        self.block = QueryBlock(k, spread)
        self.ring = AttentionRing(k, spread)
        self.depth_steps = -(-loops.attention.depth // STEP_DEPTH)
        self.key_steps = spread.keys // STEP_DEPTH
        self.columns = rounded(loops.value.size, SLAB_COLUMNS)
        self.group = own_group(k)
        self.lane = m.rem(k.thread("x"), WARP_THREADS)
        self.is_first_lane = m.compare("EQ", self.lane, 0)
        # Number of the consumer's warp: the first four warps are the producer.
        self.warp = m.rem(m.sub(m.div(k.thread("x"), WARP_THREADS), _GROUP_WARPS), CONSUMER_WARPS)
        self.group_row = m.mul(m.sub(self.group, 1), _GROUP_ROWS)
        factors = spread.problem.result.right.dtype
        tiles = spread.keys // 8, self.columns // 8
        row = m.mul(self.warp, 16)
        self.fragments = Fragments(k, row, self.lane, 1, tiles, factors)
        self.scores, self.sums = self.fragments.scores, self.fragments.sums
        patch = self.fragments.patch(self.group_row)
        self.softmax = OnlineSoftmax(k, spread, patch, self.scores, self.sums)
        left, right, name = self.ring.queries, self.ring.keys, factors.name
        self.score_kind = f"{name}.{spread.keys}.{left.order}{right.order}"
        self.value_helper = f"warpgroup.multiply.{name}.{self.columns}.r{self.ring.values.order}"
        self.words = k.b.allocate(S32, 4 * self.key_steps)

    def write(self) -> None:
        """Emit the function."""
        k, m = self.k, self.k.math
        with k.body.when(m.compare("EQ", k.thread("x"), 0)):
            self.ring.prepare()
        k.barrier()
        with k.body.when(m.compare("EQ", self.group, 0)):
            k.call("warpgroup.few_registers")
            self._produce()
        with k.body.when(m.compare("NE", self.group, 0)):
            k.call("warpgroup.many_registers")
            self._consume()

    # ---- the producer

    def _produce(self) -> None:
        """Copy the queries, then keys and values tile by tile."""
        k, m, block = self.k, self.k.math, self.block
        is_first = m.compare("EQ", k.thread("x"), 0)
        with k.body.when(is_first):
            self.ring.fill_queries(block.head, block.first_row)
        with (
            block.ranges(lambda _: self._verdict()) as (first, stop),
            k.body.when(is_first),
            k.body.loop(first, stop) as tile,
        ):
            number, key = m.sub(tile, block.first_tile), m.mul(tile, self.spread.keys)
            self.ring.fill(number, block.head, key, is_values=False)
            self.ring.fill(number, block.head, key, is_values=True)

    # ---- the consumers

    def _consume(self) -> None:
        """Multiply tile after tile and write the result."""
        k, m, block = self.k, self.k.math, self.block
        self.softmax.start(block.head, block.first_row)
        self.ring.await_queries()
        with block.ranges(self._vote) as (first, stop):
            self._begin_scores(first)
            through(k, self.scores, self.spread.keys, f"warpgroup.finish.{self.spread.keys}")
            self._weigh(first)
            self._rescale_and_pack()
            with k.body.loop(m.add(first, 1), stop) as tile:
                self._overlap(tile)
            last = m.sub(stop, 1)
            self._begin_values(last)
            self._finish_values(last)
        self.softmax.finish()
        block.write(self.softmax, self._write)

    def _overlap(self, tile: IndexValue) -> None:
        """Weigh the scores of a tile while the values of the tile before it are multiplied."""
        k, keys, before = self.k, self.spread.keys, self.k.math.sub(tile, 1)
        self._begin_scores(tile)
        self._begin_values(before)
        through(k, self.scores, keys, f"warpgroup.finish_earlier.{keys}")
        self._weigh(tile)
        self._finish_values(before)
        self._rescale_and_pack()

    def _number(self, tile: IndexValue) -> IndexValue:
        return self.k.math.sub(tile, self.block.first_tile)

    def _begin_scores(self, tile: IndexValue) -> None:
        """Issue the product of queries and keys; nothing is left of earlier scores."""
        k, m, ring, number = self.k, self.k.math, self.ring, self._number(tile)
        ring.await_full(number, is_values=False)
        left = self._anchored(ring.query_descriptor(self.group_row))
        right = ring.descriptor(number, is_values=False)
        k.call("warpgroup.begin")
        for step in range(self.depth_steps):
            sides = [
                m.value(m.add(descriptor, operand.step(step)))
                for operand, descriptor in ((ring.queries, left), (ring.keys, right))
            ]
            action, keep = ("multiply", [k.b.const(S32, 1)]) if step else ("initialise", [])
            helper = f"warpgroup.{action}.{self.score_kind}"
            through(k, self.scores, self.spread.keys, helper, *sides, *keep)
        k.call("warpgroup.commit")

    def _anchored(self, descriptor: IndexValue) -> Value:
        anchored = self.k.call("warpgroup.anchor", self.k.math.value(descriptor))
        return Value(S64, anchored.text)

    def _weigh(self, tile: IndexValue) -> None:
        """Release the keys and replace the scores by weights."""
        self.ring.give_back(self._number(tile), self.is_first_lane, is_values=False)
        self.softmax.take(tile)

    def _rescale_and_pack(self) -> None:
        """Prepare both sides of the next product with values: sums, and packed weights."""
        self.softmax.rescale()
        for step in range(self.key_steps):
            for number, word in enumerate(self.fragments.weights(0, step)):
                self.k.b.store(self.words, 4 * step + number, word)

    def _begin_values(self, tile: IndexValue) -> None:
        """Issue the product of the packed weights and the values of a tile."""
        k, m, ring, number = self.k, self.k.math, self.ring, self._number(tile)
        ring.await_full(number, is_values=True)
        right = ring.descriptor(number, is_values=True)
        through(k, self.sums, self.columns, f"warpgroup.begin.{self.columns}")
        for step in range(self.key_steps):
            words = [k.b.load(self.words, S32, 4 * step + number) for number in range(4)]
            at = m.value(m.add(right, ring.values.step(step)))
            keep = k.b.const(S32, 1)
            through(k, self.sums, self.columns, self.value_helper, *words, at, keep)
        k.call("warpgroup.commit")

    def _finish_values(self, tile: IndexValue) -> None:
        """Wait for the product with the values of a tile and release them."""
        through(self.k, self.sums, self.columns, f"warpgroup.finish.{self.columns}")
        self.ring.give_back(self._number(tile), self.is_first_lane, is_values=True)

    # ---- tiles that a causal mask hides

    def _vote(self, stop: Value) -> Value:
        """Return whether the tiles from `stop` on would change nothing in any consumer."""
        k, m, b = self.k, self.k.math, self.k.b
        thread = m.sub(k.thread("x"), WARPGROUP_THREADS)
        holds = self.block.changes_nothing(self.softmax, thread, _CONSUMER_THREADS, stop)
        word = b.convert(holds, S32)
        lanes = WARP_THREADS
        while lanes > 1:
            lanes //= 2
            word = b.and_(word, shuffle(k, "xor", word, lanes))
        with k.body.when(self.is_first_lane):
            b.store(self._votes(), m.value(self.warp), word)
        return self._verdict()

    def _verdict(self) -> Value:
        """Return whether all consumers voted to stop; all threads of the block meet here."""
        k, b = self.k, self.k.b
        k.barrier()
        votes = [b.load(self._votes(), S32, warp) for warp in range(CONSUMER_WARPS)]
        return k.body.all_of([b.compare("NE", vote, b.const(S32, 0)) for vote in votes])

    def _votes(self) -> Value:
        pointer = f"addrspacecast ptr addrspace(3) {self.ring.votes.text} to ptr"
        return pointer_value(self.k.fn.value(pointer))

    # ---- the result

    def _write(self, part: IndexValue, factors: Sequence[Value]) -> None:
        """Write the sums times a factor for each row."""
        spread, block = self.spread, self.block
        tile = Tile(spread.rows, self.columns, spread.keys, spread.threads, 1, 1.0)
        slab = self.ring.slab(self.warp)
        writer = SlabWriter(self.k, spread.problem.result, tile, spread.parts, slab, self.lane)
        self.fragments.write(writer, (part, block.head), block.first_row, factors)
