"""The IR: modules, computations and instructions, and the API that changes them."""
