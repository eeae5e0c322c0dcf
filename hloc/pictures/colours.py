"""Colours of opcodes, by the conventions of XLA's graphs.

Every kind has a fill, a border and a text colour in three palettes: XLA's own, the same for dark
pages, and one that stays distinct for colour-blind people (after Okabe and Ito).
"""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    """Fill, border and text, as `#rrggbb`."""

    fill: str
    border: str
    text: str


_OPCODES = {
    "broadcast": "broadcast dynamic-update-slice",
    "movement": "concatenate dynamic-slice reshape dynamic-reshape transpose reverse copy "
    "copy-start copy-done bitcast bitcast-convert",
    "contraction": "dot convolution fft cholesky triangular-solve ragged-dot scaled-dot",
    "reduction": "reduce reduce-window scatter gather select-and-scatter batch-norm-training "
    "batch-norm-inference batch-norm-grad scan",
    "fusion": "fusion map domain get-dimension-size set-dimension-size",
    "call": "call conditional while custom-call async-start async-update async-done",
    "communication": "all-gather all-reduce all-to-all collective-broadcast collective-permute "
    "ragged-all-to-all reduce-scatter all-gather-start all-gather-done all-reduce-start "
    "all-reduce-done collective-permute-start collective-permute-done infeed outfeed send "
    "send-done recv recv-done partition-id replica-id",
    "parameter": "parameter",
}
_KIND_OF = {name: kind for kind, names in _OPCODES.items() for name in names.split()}

KINDS = ("plain", *_OPCODES, "group")
"""Kinds of boxes; `plain` is elementwise and all other opcodes, `group` can be opened."""

TITLES = {
    "plain": "elementwise and other",
    "broadcast": "broadcast, update in place",
    "movement": "moves data",
    "contraction": "dot, convolution, linear algebra",
    "reduction": "reduce, gather, scatter",
    "fusion": "fusion, map",
    "call": "call, while, conditional, custom-call",
    "communication": "between devices",
    "parameter": "parameter",
    "group": "several instructions",
}

XLA = {
    "plain": Colour("#ffffff", "#9e9e9e", "#1b1f24"),
    "broadcast": Colour("#fff9c4", "#cbc693", "#1b1f24"),
    "movement": Colour("#c8e6c9", "#97b498", "#1b1f24"),
    "contraction": Colour("#1565c0", "#003c8f", "#ffffff"),
    "reduction": Colour("#e1bee7", "#af8eb5", "#1b1f24"),
    "fusion": Colour("#cfd8dc", "#9ea7aa", "#1b1f24"),
    "call": Colour("#2e7d32", "#005005", "#ffffff"),
    "communication": Colour("#bcaaa4", "#8c7b75", "#1b1f24"),
    "parameter": Colour("#ffe0b2", "#cbae82", "#1b1f24"),
    "group": Colour("#eef1f5", "#8a96a3", "#1b1f24"),
}

DARK = {
    "plain": Colour("#23292f", "#6e7681", "#e6edf3"),
    "broadcast": Colour("#4a431a", "#a39a4e", "#f5efc9"),
    "movement": Colour("#1f4023", "#5d9061", "#d6efd8"),
    "contraction": Colour("#1565c0", "#64a4f0", "#ffffff"),
    "reduction": Colour("#4d2a55", "#a973b4", "#f1dcf5"),
    "fusion": Colour("#37424a", "#7f8c94", "#e6edf3"),
    "call": Colour("#2e7d32", "#7cc47f", "#ffffff"),
    "communication": Colour("#4e403b", "#9a857d", "#eee3df"),
    "parameter": Colour("#57401c", "#b98f4d", "#ffe9c9"),
    "group": Colour("#1b222b", "#697684", "#e6edf3"),
}

COLOUR_BLIND = {
    "plain": Colour("#ffffff", "#8c8c8c", "#111111"),
    "broadcast": Colour("#f7f0a3", "#a89a00", "#111111"),
    "movement": Colour("#a8ddcb", "#007a57", "#111111"),
    "contraction": Colour("#0072b2", "#00466e", "#ffffff"),
    "reduction": Colour("#e8b9d3", "#a8527d", "#111111"),
    "fusion": Colour("#d5d8db", "#7d858b", "#111111"),
    "call": Colour("#e56b0c", "#8a3c00", "#111111"),
    "communication": Colour("#4d4d4d", "#1a1a1a", "#ffffff"),
    "parameter": Colour("#f6cf7f", "#b07a00", "#111111"),
    "group": Colour("#eef1f5", "#7d858b", "#111111"),
}

PALETTES = {"xla": XLA, "dark": DARK, "colour-blind": COLOUR_BLIND}

STATUS = {"added": "#1a9e4b", "removed": "#d1242f", "changed": "#d98a00", "rewired": "#8250df"}
"""Border colours of changed boxes."""


def kind_of(opcode: str) -> str:
    """Return the kind of boxes for `opcode`: `contraction` for `dot`."""
    return _KIND_OF.get(opcode, "plain")
