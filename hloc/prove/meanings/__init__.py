"""The semantics of opcodes in Z3: a function per opcode and class of element types.

Each takes Z3's module, the element type of the result, and the operands as Z3 expressions:
integers are bit-vectors of their width, pred is Bool, floats are Z3's IEEE numbers. `table.py`
selects the function of a term. The semantics follow the rows in `hloc/ops/` and docs/numerics.md; a
test compares each function with the evaluator.
"""
