"""`hloc completion SHELL`: what can be completed (`words.py`), as a script for each shell."""
