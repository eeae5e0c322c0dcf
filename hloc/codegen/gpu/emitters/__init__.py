"""Writers of GPU kernels, one file per form of loop; `table` says which is taken."""
