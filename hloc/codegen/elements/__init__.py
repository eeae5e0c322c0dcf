"""The value of one element of an instruction, with everything fused into it."""
