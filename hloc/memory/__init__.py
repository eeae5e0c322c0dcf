"""From instructions to memory: order, live ranges, buffers."""
