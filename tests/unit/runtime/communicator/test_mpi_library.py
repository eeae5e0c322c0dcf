"""What a job over MPI says before it begins."""

import sys

import pytest

from hloc.errors import HloError
from hloc.runtime.communicator.mpi.communicator import MpiEngine


def test_a_missing_mpi4py_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(HloError, match=r"needs mpi4py .* pip install 'hloc\[mpi\]'"):
        MpiEngine()
