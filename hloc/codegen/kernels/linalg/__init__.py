"""Matrix factorisations and solutions in machine code of hloc's own, for every target."""
