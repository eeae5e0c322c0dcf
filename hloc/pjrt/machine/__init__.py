"""The functions of the plug-in that are called per run, as machine code.

They are written in the subset of Python that `codegen/llvm/python_subset.py` translates to LLVM
text, and never run as Python. `load.py` compiles them once per machine and loads the object from
hloc's cache.
"""
