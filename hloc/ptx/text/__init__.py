"""PTX text to a `PtxModule` (`program.py`): tokens, operands, declarations, functions."""
