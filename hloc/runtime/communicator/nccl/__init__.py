"""The engine `nccl`: devices are GPUs, each driven by a thread of this process."""
