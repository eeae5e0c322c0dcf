"""Matrix factorisations and solvers on CPUs: calls of routines for any size."""
