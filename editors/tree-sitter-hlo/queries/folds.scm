[(computation) (inline_computation) (table)] @fold
