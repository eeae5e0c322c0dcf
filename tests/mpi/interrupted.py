"""`hloc run FILE` in a job whose process 0 gets Ctrl-C: `python -m tests.mpi.interrupted FILE`."""

import os
import signal
import sys
import threading
import time

from hloc.cli import main
from hloc.runtime.communicator.mpi import native

_SECONDS = 1.0


def interrupt_once_it_runs() -> None:
    """Send SIGINT to this process a while after its machine code has been loaded."""
    while not native.machine.cache_info().currsize:
        time.sleep(0.05)
    time.sleep(_SECONDS)
    print("Ctrl-C is sent", flush=True)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    if os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK")) == "0":
        threading.Thread(target=interrupt_once_it_runs, daemon=True).start()
    sys.exit(main(["run", "-q", *sys.argv[1:]]))
