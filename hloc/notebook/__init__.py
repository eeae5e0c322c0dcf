"""hloc in Jupyter: the magics `%hlo` and `%%hlo`, and what notebooks draw."""
