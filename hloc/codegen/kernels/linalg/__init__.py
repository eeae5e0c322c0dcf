"""hloc's own matrix factorisations and solvers, for every target."""
