"""What each instruction does: a decoder per opcode, which returns an `Operation`, by family."""
