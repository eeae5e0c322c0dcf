"""The IR: modules of computations of instructions, and the one API that changes them."""
