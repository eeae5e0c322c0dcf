"""Machine code for the processor of this machine."""
