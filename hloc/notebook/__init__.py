"""hloc in Jupyter: the magics `%hlo` and `%%hlo`, and drawings in notebooks."""
