"""What a hostile program tries in a confined process, and that it would work outside of one."""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits of Unix")

from hloc.confinement.forked import Forks
from tests.unit.confinement.confined import ROOT, SECRET, confined, fork_server, unconfined

SYSTEM_CALL = """
def attack():
    library = ctypes.CDLL(None, use_errno=True)
    result = library.{call}
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True
"""
HIDDEN = "FileNotFoundError: .*No such file"
REFUSED = "PermissionError: .*Operation not permitted"
READ_ONLY = "OSError: .*Read-only file system|PermissionError: .*Permission denied"


def call(text: str) -> str:
    return SYSTEM_CALL.format(call=text)


ATTACKS = {
    "reads the users": (
        "def attack(): return bool(open('/etc/passwd').read())",
        HIDDEN,
    ),
    "reads the keys of the user": (
        "def attack(): return open('{home}/.ssh/id').read() == 'key'",
        HIDDEN,
    ),
    "reads them through a link": (
        "def attack():\n"
        "    os.path.lexists('link') or os.symlink('{home}/.ssh/id', 'link')\n"
        "    return open('link').read() == 'key'",
        HIDDEN,
    ),
    "reads them through a path that climbs": (
        "def attack(): return open('../../../../../../..{home}/.ssh/id').read() == 'key'",
        HIDDEN,
    ),
    "follows the root of a process": (
        "def attack(): return bool(os.listdir('/proc/{pid}/root/etc'))",
        HIDDEN,
    ),
    "reads the environment of the server": (
        "def attack(): return bool(open('/proc/{pid}/environ').read())",
        HIDDEN,
    ),
    "opens the memory of the server": (
        "def attack(): return bool(open('/proc/{pid}/maps').read())",
        HIDDEN,
    ),
    "lists the open files of the server": (
        "def attack(): return bool(os.listdir('/proc/{pid}/fd'))",
        HIDDEN,
    ),
    "writes beside its folder": (
        "def attack(): return open('{home}/planted', 'w').write('x') == 1",
        HIDDEN,
    ),
    "changes hloc": (
        "def attack(): return open('{hloc}/errors.py', 'r+').readable()",
        READ_ONLY,
    ),
    "plants a module beside hloc": (
        "def attack(): return os.mkdir('{hloc}/planted') or os.rmdir('{hloc}/planted') or True",
        READ_ONLY,
    ),
    "connects to the loopback": (
        "def attack(): return bool(socket.create_connection(('127.0.0.1', {port}), 5))",
        REFUSED,
    ),
    "sends to another machine": (
        "def attack():\n"
        "    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:\n"
        "        return bool(out.fileno())",
        REFUSED,
    ),
    "connects to a socket of the user": (
        "def attack():\n"
        "    with socket.socket(socket.AF_UNIX) as out:\n"
        "        return out.connect('{home}/socket') is None",
        REFUSED,
    ),
    "forks": (
        "def attack():\n"
        "    pids = [os.fork() for _ in range(3)]\n"
        "    if 0 in pids: os._exit(0)\n"
        "    return all(pids)",
        REFUSED,
    ),
    "starts a program": (
        "def attack():\n"
        "    import subprocess\n"
        "    return subprocess.run(['/bin/true']).returncode == 0",
        REFUSED,
    ),
    "starts threads": (
        "def attack():\n"
        "    import threading\n"
        "    return threading.Thread(target=int).start() is None",
        "RuntimeError: can't start new thread",
    ),
    "takes memory": (
        "def attack(): return len(bytearray(1 << 30)) == 1 << 30",
        "MemoryError: ",
    ),
    "fills the disk": (
        "def attack(): return open('big', 'wb').write(bytes(8 << 20)) == 8 << 20",
        "OSError: .*File too large",
    ),
    "makes files without end": (
        "def attack():\n"
        "    for i in range(3000): open(f'many{{i}}', 'w').close()\n"
        "    return True",
        "OSError: .*No space left on device",
    ),
    "prints without end": (
        "def attack():\n"
        "    for _ in range(100): os.write(2, bytes(100_000))\n"
        "    return True",
        "OSError: .*File too large",
    ),
    "sends a signal to the server": (
        "def attack(): return os.kill({pid}, 0) is None",
        "ProcessLookupError: .*No such process",
    ),
    "sends a signal to all": (
        "def attack(): return os.kill(-1, 0) is None",
        "ProcessLookupError: .*No such process",
    ),
    "traces": (call("ptrace(0, 0, 0, 0)"), REFUSED),
    "makes namespaces": (call("unshare(0x10000000)"), REFUSED),
    "asks for keys": (call("syscall({keyctl}, 0, -3, 1)"), REFUSED),
    "makes files in memory": (call("memfd_create(b'x', 0)"), REFUSED),
    "shares memory": (call("shmget(0, 4096, 0o1600)"), REFUSED),
    "outlives the server": (call("prctl(1, 0)"), REFUSED),
    "takes another processor": (
        "def attack(): return os.sched_setaffinity(0, os.sched_getaffinity(0)) is None",
        REFUSED,
    ),
    "leaves its group": (
        "def attack(): return os.setpgid(0, 0) is None",
        REFUSED,
    ),
    "loads a library that it wrote": (
        "def attack():\n"
        "    import _ctypes, shutil\n"
        "    shutil.copy(_ctypes.__file__, 'planted.so')\n"
        "    return bool(ctypes.CDLL('./planted.so'))",
        "OSError: .*failed to map segment",
    ),
    "reads the environment of the user": (
        f"def attack(): return os.environ['{SECRET}'] == 'told'",
        f"KeyError: .*{SECRET}",
    ),
}  # fmt: skip
"""Python that tries something; how it ends in a confined process. Outside of one it works."""

KEYCTL = {"x86_64": 250, "aarch64": 219}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    found = fork_server()
    yield found
    found.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("home")
    (folder / ".ssh").mkdir()
    (folder / ".ssh" / "id").write_text("key")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        yield folder


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_fails_here_and_works_outside(
    what: str, forks: Forks, home: Path, port: int, tmp_path: Path
) -> None:
    text, expected = ATTACKS[what]
    if "{hloc}" in text and not os.access(ROOT / "hloc", os.W_OK):
        pytest.skip("hloc belongs to another user")
    code = text.format(
        home=home, port=port, pid=os.getpid(), hloc=ROOT / "hloc",
        keyctl=KEYCTL.get(os.uname().machine, 0),
    )  # fmt: skip
    assert re.match(expected, ended(confined(forks, code)), re.DOTALL)
    assert ended(unconfined(code, tmp_path)).startswith("worked: True")


def ended(outcome: tuple[str, object]) -> str:
    return f"{outcome[0]}: {outcome[1]}"
