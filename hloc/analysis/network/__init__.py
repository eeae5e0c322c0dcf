"""What collectives cost: the mesh of devices, its links, bytes and time, and what hides them."""
