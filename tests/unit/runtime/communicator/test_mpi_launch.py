"""How a process knows that `mpiexec` started it."""

import pytest

from hloc.runtime.communicator.mpi.launch import launched_processes


@pytest.mark.parametrize(
    "environment",
    [
        {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"},
        {"PMI_SIZE": "4", "PMI_RANK": "3"},
        {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1", "SLURM_NTASKS": "4"},
    ],
)
def test_launchers_leave_the_number_of_processes(environment: dict[str, str]) -> None:
    assert launched_processes(environment) == 4


@pytest.mark.parametrize(
    "environment",
    [{}, {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, {"PMI_SIZE": "x", "PMI_RANK": "0"}],
)
def test_other_processes_have_none(environment: dict[str, str]) -> None:
    assert launched_processes(environment) == 0
