"""The explanation of a sharded module: its collectives and their cost, advice, other meshes."""
