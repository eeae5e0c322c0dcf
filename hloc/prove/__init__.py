"""Proofs: that a rewrite keeps every result, and that two modules give the same ones.

A computation becomes one term per element of its result (`symbolic.py`); data movement is followed
exactly, so two terms that are the same object are equal for all inputs. Other pairs are given to Z3
(`solver.py`), with the semantics of each opcode from one table (`meanings/`). docs/proofs.md
describes what is proven this way, and what is not; `tests/prove/` proves the rules of the
simplifier, and `record.py` has the record of how each was proven.
"""
