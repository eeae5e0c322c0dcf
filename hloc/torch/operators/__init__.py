"""PyTorch's core operators (ATen), by kind; each function lowers one of them.

Source of the semantics: PyTorch's list of core ATen operators and the decompositions in
`torch/_decomp`.
"""

from __future__ import annotations

from importlib import import_module

_KINDS = ("elementwise", "views", "reductions", "indexing", "products", "normalization", "pooling")


def load_all() -> None:
    """Import all kinds, which registers their operators."""
    for kind in _KINDS:
        import_module(f"hloc.torch.operators.{kind}")
