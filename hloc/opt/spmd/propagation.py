"""Propagation of shardings to a fixed point: arrays take the axes of their neighbours.

A step applies one rule: every factor gets the longest list of axes of any side,
no axis goes to two factors, and open sides are extended by the axes of their factors. Rules are
applied in post order, and changes go to the neighbours at once, until nothing changes; rules that
keep dimensions first, then all others, then broadcasts forward. After Shardy's propagation and the
GSPMD paper (Xu et al., 2021), 3.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from hloc.lazy_dataclass import dataclass
from hloc.opt.spmd.array_classes import ArrayClasses, Leaf, array_of
from hloc.opt.spmd.propagation_rules import BROADCASTS, OTHERS, SAME, PropagationRule, Side
from hloc.opt.spmd.tiling import NO_AXES, Axes, Mesh, until_used


@dataclass(slots=True)
class ArrayState:
    """The state of one class of arrays.

    Attributes:
        sizes: sizes of the dimensions.
        dims: the current axes of each dimension.
        is_open: the dimensions that may be sharded further.
        unusable: axes that must not shard it: manual, unreduced or replicated.
        weight: bytes of the array.
    """

    sizes: tuple[int, ...]
    dims: list[Axes]
    is_open: list[bool]
    unusable: frozenset[int] = NO_AXES
    weight: int = 0


@dataclass
class Propagation:
    """One propagation over a module.

    Attributes:
        followers: arrays that can be recomputed for each user; they influence only each other.
        states: state by representative of the class.
    """

    mesh: Mesh
    classes: ArrayClasses
    followers: frozenset[Leaf] = frozenset()
    states: dict[Leaf, ArrayState] = field(default_factory=dict)

    def state(self, leaf: Leaf) -> ArrayState:
        """Return the state of the class of `leaf`, initially open and replicated."""
        root = self.classes.of(leaf)
        found = self.states.get(root)
        if found is None:
            shape = array_of(root)
            rank = shape.rank
            found = ArrayState(shape.dims, [()] * rank, [True] * rank, weight=shape.size_bytes)
            self.states[root] = found
        return found

    def run(self, rules: Sequence[PropagationRule]) -> None:
        """Propagate along `rules`, given in post order, to a fixed point."""
        near: dict[Leaf, list[int]] = {}
        for number, rule in enumerate(rules):
            for side in rule.sides:
                near.setdefault(self.classes.of(side.leaf), []).append(number)
        for level in (SAME, OTHERS, BROADCASTS):
            waiting = list(reversed(range(len(rules))))
            inside = set(waiting)
            while waiting:
                number = waiting.pop()
                inside.discard(number)
                changed = self._apply(rules[number], level)
                fresh = {n for leaf in changed for n in near[leaf]} - inside - {number}
                waiting += sorted(fresh, reverse=True)
                inside |= fresh

    def _apply(self, rule: PropagationRule, level: int) -> list[Leaf]:
        """Apply a rule to its sides; return the changed ones."""
        forward = rule.forward and rule.kind <= level
        backward = rule.backward and min(rule.kind, OTHERS) <= level
        changed: list[Leaf] = []
        for to_results, allowed in ((True, forward), (False, backward)):
            if not allowed or not any(any(self.state(side.leaf).dims) for side in rule.sides):
                continue
            axes = self._axes_of_factors(rule)
            for side in rule.sides:
                if side.is_result == to_results and self._extend(side, axes, rule.sizes):
                    changed.append(self.classes.of(side.leaf))
        return changed

    def _axes_of_factors(self, rule: PropagationRule) -> dict[int, Axes]:
        """Return the axes of each factor: the most parallel list, or that of the largest array."""
        best: dict[int, tuple[tuple[int, int], Axes]] = {}
        all_follow = all(side.leaf in self.followers for side in rule.sides)
        for side in rule.sides:
            if side.leaf in self.followers and not all_follow:
                continue
            weight = self.state(side.leaf).weight
            for factor, axes in self._projected(side, rule.sizes).items():
                key = (self.mesh.size(axes), weight)
                if axes and (factor not in best or key > best[factor][0]):
                    best[factor] = key, axes
        used: set[int] = set()
        found: dict[int, Axes] = {}
        order = sorted(
            best, key=lambda f: (f in rule.reductions, -best[f][0][0], -best[f][0][1], f)
        )
        for factor in order:
            kept = until_used(best[factor][1], used)
            used |= set(kept)
            found[factor] = kept
        return found

    def _projected(self, side: Side, sizes: Sequence[int]) -> dict[int, Axes]:
        """Return the axes of a side's factors; none for dimensions whose axes do not match."""
        found: dict[int, Axes] = {}
        for factors, axes in zip(side.dims, self.state(side.leaf).dims, strict=True):
            if len(factors) == 1:
                found[factors[0]] = axes
                continue
            rest = axes
            for factor in factors:
                found[factor], room = self.mesh.dividing(rest, sizes[factor])
                rest = rest[len(found[factor]) :]
                if room > 1:
                    break
        return found

    def _extend(self, side: Side, axes: Mapping[int, Axes], sizes: Sequence[int]) -> bool:
        state = self.state(side.leaf)
        changed = False
        for dim, factors in enumerate(side.dims):
            if not factors or not state.is_open[dim]:
                continue
            wanted = self._joined(factors, axes, sizes)
            now = state.dims[dim]
            elsewhere = {a for d, other in enumerate(state.dims) if d != dim for a in other}
            wanted = until_used(wanted, elsewhere | state.unusable)
            if len(wanted) > len(now) and wanted[: len(now)] == now:
                state.dims[dim] = wanted
                changed = True
        return changed

    def _joined(
        self, factors: Sequence[int], axes: Mapping[int, Axes], sizes: Sequence[int]
    ) -> Axes:
        """Return a dimension's axes: minor factors only if the major ones are fully sharded."""
        if len(factors) == 1:
            return axes.get(factors[0], ())
        found: Axes = ()
        for factor in factors:
            room = sizes[factor]
            for axis in axes.get(factor, ()):
                if room % self.mesh.sizes[axis]:
                    return found
                room //= self.mesh.sizes[axis]
                found += (axis,)
            if room > 1:
                break
        return found
