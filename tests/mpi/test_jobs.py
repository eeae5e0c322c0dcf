"""Jobs of several processes: the same bits as the evaluator, and an end with a message."""

import re

import pytest

from tests.mpi.launching import run

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_all_collectives_give_the_bits_of_the_evaluator(processes: int) -> None:
    job = run(processes, "-m", "tests.mpi.program", "equal")
    assert job.code == 0, job.text
    assert job.text.count("is done") == processes


@pytest.mark.parametrize("processes", [2, 4])
def test_messages_in_pieces_give_the_same_bits(processes: int) -> None:
    job = run(processes, "-m", "tests.mpi.program", "pieces")
    assert job.code == 0, job.text
    assert job.text.count("is done") == processes


@pytest.mark.parametrize("processes", [2, 4])
def test_a_deadlock_ends_the_job_and_names_devices_and_instructions(processes: int) -> None:
    job = run(processes, "-m", "tests.mpi.program", "deadlock")
    assert job.code != 0
    assert "error: deadlock" in job.text
    assert "device 1 at all-reduce 'x' (<string>:6:8), waiting for devices 0, 2-3" in job.text
    assert "devices 0, 2-3 at the end of the program" in job.text


@pytest.mark.parametrize("processes", [2, 4])
def test_devices_that_wait_for_each_other_s_data_are_a_deadlock(processes: int) -> None:
    job = run(processes, "-m", "tests.mpi.program", "transfer_deadlock")
    assert job.code != 0
    assert "error: deadlock" in job.text
    assert re.search(r"device 0 at recv-done 'd'.*waiting for device 1", job.text)


def test_data_of_the_next_run_is_not_taken_for_that_of_this_one() -> None:
    job = run(4, "-m", "tests.mpi.program", "transfer_missing")
    assert job.code != 0
    assert re.search(r"device 1 at recv-done 'd'.*waiting for device 0", job.text)


@pytest.mark.parametrize("processes", [2, 4])
def test_checked_devices_name_the_collectives_that_differ(processes: int) -> None:
    job = run(processes, "-m", "tests.mpi.program", "mismatch")
    assert job.code != 0
    assert "device 1 is at all-reduce 'x' (<string>:6:8)" in job.text
    assert "is at collective-broadcast 'y' (<string>:10:8)" in job.text


def test_a_device_that_waits_too_long_ends_the_job() -> None:
    job = run(4, "-m", "tests.mpi.program", "overdue")
    assert job.code != 0
    assert "a device has waited for more than 0.5 s" in job.text
    assert "devices 1-3 at all-reduce 'r.1'" in job.text


def test_a_fault_on_one_process_ends_the_job() -> None:
    job = run(4, "-m", "tests.mpi.program", "host_fault")
    assert job.code != 0
    assert "the host of process 0 failed" in job.text
    assert "is done" not in job.text


def test_processes_with_different_modules_are_detected() -> None:
    job = run(4, "-m", "tests.mpi.program", "other_module")
    assert job.code != 0
    assert "process 2 of the job has another module or other options than process 0" in job.text


def test_a_killed_process_ends_the_job() -> None:
    job = run(4, "-m", "tests.mpi.program", "killed")
    assert job.code != 0
    assert "is done" not in job.text
