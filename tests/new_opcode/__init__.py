"""Two opcodes that HLO does not have, each added as docs/adding-an-opcode.md says."""
