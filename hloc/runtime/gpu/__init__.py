"""Running code for GPUs: on a device, or in the interpreter of its instructions."""
