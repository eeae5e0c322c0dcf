"""StableHLO text: parsed into a module and printed from one.

`reader.py` parses MLIR's text into the operations of `tree.py`; `forms.py` lists the custom syntax
of operations; `operations.py` maps operations to opcodes and their attributes, both ways;
`to_module.py` and `from_module.py` convert. Source: the StableHLO specification (openxla/stablehlo)
and MLIR's language reference.
"""
