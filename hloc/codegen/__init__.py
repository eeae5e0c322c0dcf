"""From scheduled modules with buffers to LLVM IR and objects."""
