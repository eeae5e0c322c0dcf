"""The functions of the plug-in that are called per run, as machine code.

They are written in the subset of Python that `translate.py` turns into LLVM text, with the words of
`words.py`; they never run as Python. `load.py` compiles them once per machine and loads the object
from hloc's cache.
"""
