"""Detects from the environment, without mpi4py, whether an MPI launcher started this process."""

from __future__ import annotations

from collections.abc import Mapping

_SIZES = {
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",
    "PMI_SIZE": "PMI_RANK",  # MPICH, Intel MPI, Cray
    "MV2_COMM_WORLD_SIZE": "MV2_COMM_WORLD_RANK",
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",  # srun
}
"""Variables with the number of processes, and those with the rank."""


def launched_processes(environment: Mapping[str, str]) -> int:
    """Return the number of processes that `mpiexec` or `srun` started, 0 if neither did."""
    for size, rank in _SIZES.items():
        count = environment.get(size, "")
        if count.isdecimal() and rank in environment:
            return int(count)
    return 0
