"""Running code for GPUs: on a device, or in the PTX interpreter."""
