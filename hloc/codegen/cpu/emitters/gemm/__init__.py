"""Matrix products: packing, micro-kernels, products of few rows or columns, epilogues."""
