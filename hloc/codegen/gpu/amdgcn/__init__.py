"""AMD GPUs: from the kernels of `codegen/gpu` to assembly and relocatable objects."""
