"""Texts of attentions: any order of dimensions and operands, masks, types, grouped queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MASKS = ("none", "causal", "causal-negated", "shifted", "padding", "added", "causal-and-padding")


@dataclass(frozen=True)
class AttentionText:
    """One attention.

    Attributes:
        sizes: batch, heads, queries, keys, depth, size of values.
        order: of batch, heads, length and depth in the operands, e.g. `bhsd`.
        scale: "scores", "queries" or "none".
        scores_dtype: of the first product and its mask; softmax is in f32.
        keys_first: the keys are the left-hand side of the first product.
        values_first: the same of the second product.
        hidden: the logit of masked keys.
        shared_heads: query heads per head of keys and values.
    """

    sizes: tuple[int, int, int, int, int, int] = (1, 2, 40, 40, 16, 16)
    order: str = "bhsd"
    mask: str = "none"
    scale: str = "scores"
    dtype: str = "f32"
    scores_dtype: str = "f32"
    keys_first: bool = False
    values_first: bool = False
    hidden: str = "-inf"
    shared_heads: int = 1

    def text(self) -> str:
        """Return the whole module."""
        lines = [*self._products(), *self._mask(), *self._softmax()]
        reducers = "".join(
            f"{name} {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
            f"  ROOT r = f32[] {opcode}(a, b)\n}}\n\n"
            for name, opcode in (("top", "maximum"), ("sum", "add"))
        )
        return f"HloModule m\n\n{reducers}ENTRY e {{\n  " + "\n  ".join(lines) + "\n}\n"

    def _shape(self, dtype: str, **sizes: int) -> str:
        return f"{dtype}[{','.join(str(sizes[letter]) for letter in self.order)}]"

    def _dims(self, *letters: str) -> str:
        return ",".join(str(self.order.index(letter)) for letter in letters)

    @property
    def _scores_dims(self) -> list[int]:
        b, h, q, k, _, _ = self.sizes
        own = [q, self.shared_heads] if self.shared_heads > 1 else [q]
        return [b, h, k, *own] if self.keys_first else [b, h, *own, k]

    @property
    def _key_dim(self) -> int:
        return 2 if self.keys_first else len(self._scores_dims) - 1

    @property
    def _query_dim(self) -> int:
        return 3 if self.keys_first else 2

    def _products(self) -> list[str]:
        b, h, q, k, d, v = self.sizes
        t, s, g = self.dtype, self.scores_dtype, self.shared_heads
        query_shape = self._shape(t, b=b, h=h, s=q, d=d)
        if g > 1:  # the group is the last but one dimension
            letters = list(self.order)
            dims = [{"b": b, "h": h, "s": q, "d": d}[x] for x in letters]
            query_shape = f"{t}[{','.join(map(str, dims[:-1]))},{g},{dims[-1]}]"
        key_shape = self._shape(t, b=b, h=h, s=k, d=d)
        value_shape = self._shape(t, b=b, h=h, s=k, d=v)
        lines = [
            f"q0 = {query_shape} parameter(0)",
            f"k = {key_shape} parameter(1)",
            f"v = {value_shape} parameter(2)",
            "factor = f32[] constant(0.25)",
        ]
        queries = "q0"
        if self.scale == "queries":
            lines += [
                f"qf = {t}[] convert(factor)",
                f"qb = {query_shape} broadcast(qf), dimensions={{}}",
                f"q = {query_shape} multiply(q0, qb)",
            ]
            queries = "q"
        last = {"d": len(self.order) - 1 + (g > 1)}
        at = {**{x: self.order.index(x) for x in "bhs"}, "d": self.order.index("d"), **last}
        of_queries = ("b", "h", "d")
        q_dims = [at[x] if g > 1 else self.order.index(x) for x in of_queries]
        k_dims = [self.order.index(x) for x in of_queries]
        left, right = (queries, q_dims), ("k", k_dims)
        if self.keys_first:
            left, right = right, left
        full = _joined(self._scores_dims)
        numbers = ", ".join(
            f"{side}_batch_dims={{{x},{y}}}, {side}_contracting_dims={{{z}}}"
            for side, (_, (x, y, z)) in (("lhs", left), ("rhs", right))
        )
        lines.append(f"raw = {s}[{full}] dot({left[0]}, {right[0]}), {numbers}")
        if self.scale == "scores":
            lines += [
                f"sf = {s}[] convert(factor)",
                f"sb = {s}[{full}] broadcast(sf), dimensions={{}}",
                f"scaled = {s}[{full}] multiply(raw, sb)",
            ]
        else:
            lines.append(f"scaled = {s}[{full}] copy(raw)")
        return lines

    def _mask(self) -> list[str]:
        b, _, q, k, _, _ = self.sizes
        dims, s = _joined(self._scores_dims), self.scores_dtype
        key, query = self._key_dim, self._query_dim
        if self.mask == "none":
            return [f"masked = {s}[{dims}] copy(scaled)"]
        if self.mask == "added":
            return [
                f"m = {s}[{b},{k}] parameter(3)",
                f"mb = {s}[{dims}] broadcast(m), dimensions={{0,{key}}}",
                f"masked = {s}[{dims}] add(scaled, mb)",
            ]
        shift = (k - q) if self.mask == "shifted" else 0
        negated = self.mask == "causal-negated"
        lines = [
            f"low = {s}[] constant({self.hidden})",
            f"lowb = {s}[{dims}] broadcast(low), dimensions={{}}",
        ]
        if self.mask == "padding":
            lines += [
                f"m = pred[{b},{k}] parameter(3)",
                f"see = pred[{dims}] broadcast(m), dimensions={{0,{key}}}",
            ]
        else:
            lines += [
                f"iq0 = s32[{q},{k}] iota(), iota_dimension=0",
                f"shift = s32[] constant({shift})",
                f"shiftb = s32[{q},{k}] broadcast(shift), dimensions={{}}",
                f"iq = s32[{q},{k}] add(iq0, shiftb)",
                f"ik = s32[{q},{k}] iota(), iota_dimension=1",
                f"c = pred[{q},{k}] compare(iq, ik), direction={'LT' if negated else 'GE'}",
            ]
            if self.keys_first:
                lines += [
                    f"ct = pred[{k},{q}] transpose(c), dimensions={{1,0}}",
                    f"see0 = pred[{dims}] broadcast(ct), dimensions={{{key},{query}}}",
                ]
            else:
                lines.append(f"see0 = pred[{dims}] broadcast(c), dimensions={{{query},{key}}}")
            if self.mask == "causal-and-padding":
                lines += [
                    f"m = pred[{b},{k}] parameter(3)",
                    f"mb = pred[{dims}] broadcast(m), dimensions={{0,{key}}}",
                    f"see = pred[{dims}] and(mb, see0)",
                ]
            else:
                lines.append(f"see = pred[{dims}] copy(see0)")
        values = "lowb, scaled" if negated else "scaled, lowb"
        return [*lines, f"masked = {s}[{dims}] select(see, {values})"]

    def _softmax(self) -> list[str]:
        b, h, _, _, _, v = self.sizes
        dims, key = self._scores_dims, self._key_dim
        own = [d for n, d in enumerate(dims) if n != key]
        outer = ",".join(str(n) for n in range(len(dims)) if n != key)
        full, rows = _joined(dims), _joined(own)
        t = self.dtype
        p = f"{t}[{full}] convert(pf)" if t != "f32" else f"f32[{full}] copy(pf)"
        free = own[2:]
        result = [b, h, v, *free] if self.values_first else [b, h, *free, v]
        value_dims = (self._dims("b", "h"), self._dims("s"))
        sides = [("p", "0,1", str(key)), ("v", *value_dims)]
        if self.values_first:
            sides.reverse()
        (left, lb, lc), (right, rb, rc) = sides
        return [
            f"x = f32[{full}] convert(masked)",
            "lowest = f32[] constant(-inf)",
            "zero = f32[] constant(0)",
            f"top0 = f32[{rows}] reduce(x, lowest), dimensions={{{key}}}, to_apply=top",
            f"topb = f32[{full}] broadcast(top0), dimensions={{{outer}}}",
            f"less = f32[{full}] subtract(x, topb)",
            f"w = f32[{full}] exponential(less)",
            f"total = f32[{rows}] reduce(w, zero), dimensions={{{key}}}, to_apply=sum",
            f"totalb = f32[{full}] broadcast(total), dimensions={{{outer}}}",
            f"pf = f32[{full}] divide(w, totalb)",
            f"p = {p}",
            f"ROOT out = {t}[{_joined(result)}] dot({left}, {right}), "
            f"lhs_batch_dims={{{lb}}}, lhs_contracting_dims={{{lc}}}, "
            f"rhs_batch_dims={{{rb}}}, rhs_contracting_dims={{{rc}}}",
        ]


def _joined(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))
