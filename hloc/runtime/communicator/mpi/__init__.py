"""The engine between processes, over MPI."""
