"""A backend for hloc that writes portable C99."""
