"""Lowering, the last changes to a module before planning: every remaining opcode has a kernel."""
