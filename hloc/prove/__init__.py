"""Proofs: that a rewrite keeps every result, and that two modules give the same ones.

A computation becomes one term per element of its result (`symbolic.py`); moves of data are followed
exactly, so two terms that are the same object are equal whatever the inputs are. What differs in
form is given to Z3 (`solver.py`), with the meaning of each opcode from one table
(`meanings/`). docs/proofs.md describes what is proven this way, and what is not; `tests/prove/`
proves the rules of the simplifier, and `record.py` knows how each was proven.
"""
