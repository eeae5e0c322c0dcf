"""How instructions of particular opcodes are divided where the general method sends more bytes."""
