"""Matrix factorisations and solutions on processors: calls of routines of any size."""
