"""How sizes that are known only at run time travel through each opcode."""
