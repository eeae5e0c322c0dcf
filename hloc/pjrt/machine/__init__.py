"""The functions of the plug-in that are called per run, as machine code.

They are written in the subset of Python that `translate.py` translates to LLVM text, with the names
in `words.py`; they never run as Python. `load.py` compiles them once per machine and loads the
object from hloc's cache.
"""
