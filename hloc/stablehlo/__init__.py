"""StableHLO text: read into a module and written from one.

`reader.py` parses MLIR's text into the operations of `tree.py`; `forms.py` lists the custom syntax
of operations; `operations.py` pairs operations with opcodes and their attributes, both ways;
`to_module.py` and `from_module.py` convert. Source: the StableHLO specification (openxla/stablehlo)
and MLIR's language reference.
"""
