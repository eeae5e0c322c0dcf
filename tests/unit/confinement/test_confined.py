"""Confined processes: what they may take, that they see no other, and how they end."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits of Unix")

from hloc.confinement import forked, support
from hloc.confinement.forked import Forks, Patience, Stopped
from hloc.errors import HloError
from tests.unit.confinement.confined import LIMITS, ROOT, SERVER, asked, confined, fork_server
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    found = fork_server()
    yield found
    found.close()


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def gave(forks: Forks, body: str) -> object:
    kind, value = confined(forks, f"def attack(): {body}")
    assert kind == "worked", value
    return value


def test_a_process_is_nobody_and_alone(forks: Forks) -> None:
    assert gave(forks, "return os.getresuid() + os.getresgid()") == [1000] * 6
    assert gave(forks, "return os.getgroups()") in ([], [65534])
    assert gave(forks, "return [os.getpid(), os.getppid()]") == [1, 0]
    others = "return sorted(set(os.environ) - {'PYTHONPATH', 'LC_CTYPE'})"
    assert gave(forks, others) == []


def test_it_has_four_open_files_and_a_folder_of_its_own(forks: Forks) -> None:
    found = asked(
        forks.fork("python", LIMITS),
        "def opened(i):\n"
        "    try: return bool(os.fstat(i))\n"
        "    except OSError: return False\n"
        "def attack(): return [i for i in range(1024) if opened(i)]",
    )
    assert found == ("worked", [0, 1, 2, 3])
    assert gave(forks, "return [os.getcwd(), os.listdir()]") == ["/tmp", []]
    living = forks.fork("python", LIMITS)
    control = len(os.listdir(f"/proc/{forks._process.pid}/fd"))
    assert asked(living, "def attack(): return 1") == ("worked", 1)
    assert control > 4  # what the fork server has open for others was not handed on


def test_one_process_sees_nothing_of_another(forks: Forks) -> None:
    first, second = forks.fork("python", LIMITS), forks.fork("python", LIMITS)
    wrote = "def attack(): return open('/tmp/secret', 'w').write('x')"
    look = "def attack(): return os.listdir('/tmp')"
    assert asked(first, wrote) == ("worked", 1)
    assert asked(first, look) == ("worked", ["secret"])
    assert asked(second, look) == ("worked", [])


def test_limits_cannot_be_raised(forks: Forks) -> None:
    code = (
        "import resource\n"
        "def attack():\n"
        "    which = resource.{which}\n"
        "    return resource.setrlimit(which, (resource.getrlimit(which)[1] + 1,) * 2)"
    )
    for which in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC"):
        kind, words = confined(forks, code.format(which=which))
        assert (kind, "not allowed to raise" in str(words)) == ("ValueError", True), which


THREADS = """
import threading
stop = threading.Event()
def attack():
    started = 0
    try:
        for _ in range(100):
            threading.Thread(target=stop.wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    return started
"""


def test_threads_are_counted_and_other_processes_never_start(forks: Forks) -> None:
    process = forks.fork("python", replace(LIMITS, threads=3))
    assert asked(process, THREADS) == ("worked", 3)
    assert asked(process, "def attack(): return os.fork()")[0] == "PermissionError"
    kind, _ = asked(process, "def attack(): return os.posix_spawn('/bin/true', ['true'], {})")
    assert kind != "worked"


def test_an_endless_loop_is_ended(forks: Forks) -> None:
    for limit, words in (
        (Patience(0.3, 100, 1000), "out of time: stopped after 0.3 s"),
        (Patience(600, 0.2, 1000), "out of time: stopped after 0.2 s of processor time"),
    ):
        process = forks.fork("python", LIMITS)
        with pytest.raises(Stopped) as caught:
            process.ask("while True: pass", limit)
        assert caught.value.message == words
        wait_until(partial(has_ended, process.pid), "its end")


def test_a_long_question_gives_way_to_short_ones(
    forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "SHORT_SECONDS", 0.1)
    process = forks.fork("python", LIMITS)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
    count = "def attack(): return sum(range(20_000_000))"
    assert asked(process, count) == ("worked", 199999990000000)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    assert asked(process, "def attack(): return os.nice(-1)")[0] == "PermissionError"


def test_the_end_or_crash_of_a_process_is_reported(forks: Forks) -> None:
    for code, words in (
        ("os._exit(3)", "ended with exit code 3"),
        ("ctypes.string_at(0)", "crashed: segmentation fault (SIGSEGV)"),
        ("os.write(3, b'\\xff' * 8)", "the answer has more than 0 MiB"),
        ("os.write(3, b'\\1' + bytes(7) + b'x')", "gave no answer"),
        ("os.close(3)", "ended with exit code"),
    ):
        with pytest.raises(Stopped) as caught:
            forks.fork("python", LIMITS).ask(code, Patience(60, 10, 1000))
        assert words in caught.value.message


def test_an_answer_that_stops_in_its_middle_is_not_waited_for(forks: Forks) -> None:
    with pytest.raises(Stopped, match="out of time"):
        forks.fork("python", LIMITS).ask(
            "os.write(3, b'\\x40' + bytes(7)); __import__('time').sleep(600)",
            Patience(0.3, 10, 1000),
        )


def test_a_question_that_is_not_read_is_not_waited_for(forks: Forks) -> None:
    process = forks.fork("python", LIMITS)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(Stopped, match="out of time"):
        process.ask("x" * (4 << 20), Patience(0.3, 10, 1000))


def test_the_limit_of_its_life_ends_it(forks: Forks) -> None:
    process = forks.fork("python", replace(LIMITS, cpu_seconds=1))
    with pytest.raises(Stopped, match="out of time or memory"):
        process.ask("while True: pass", Patience(600, 600, 1000))


def test_what_it_prints_can_be_read(forks: Forks) -> None:
    process = forks.fork("python", LIMITS)
    asked(process, "def attack(): print('x' * 9000 + 'seen', flush=True)")
    assert process.printed() == "x" * 3995 + "seen\n"


def test_a_process_ends_with_its_lease_and_with_the_fork_server() -> None:
    forks = fork_server()
    first, second = forks.fork("python", LIMITS), forks.fork("python", LIMITS)
    first.close()
    wait_until(lambda: has_ended(first.pid), "the end of the first")
    assert asked(second, "def attack(): return 1") == ("worked", 1)
    forks._process.kill()
    wait_until(lambda: has_ended(second.pid), "the end of the second")
    wait_until(lambda: forks._process.poll() is not None, "the end of the fork server")
    assert asked(forks.fork("python", LIMITS), "def attack(): return 1") == ("worked", 1)
    forks.close()


MISSING = """
import sys
from hloc.confinement import kernel
real = kernel.call
def call(name, *arguments):
    if name == {name!r}:
        raise OSError(1, "Operation not permitted", name)
    return real(name, *arguments)
for module in ("file_tree", "landlock", "namespaces", "process", "seccomp"):
    __import__("hloc.confinement." + module)
    setattr(sys.modules["hloc.confinement." + module], "call", call)
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unshare", "namespaces of its own for each process (unshare: Operation not permitted)"),
        ("mount", "namespaces of its own for each process (mount: Operation not permitted)"),
        ("landlock_create_ruleset", "Landlock ("),
        ("seccomp", "a filter of system calls (seccomp)"),
    ],
)
def test_missing_features_of_the_kernel_are_reported_and_nothing_starts(
    name: str, words: str
) -> None:
    fork_server().close()
    with pytest.raises(HloError) as caught:
        Forks(MISSING.format(name=name) + SERVER, {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert f"this system does not give {words}" in caught.value.message
    assert caught.value.diagnostics[0].notes


def test_a_process_that_is_not_confined_is_found_out() -> None:
    fork_server().close()
    code = "from hloc.confinement import fork_server as f\nf.confine = lambda *_: None\n"
    with pytest.raises(HloError, match=r"check: a forbidden operation succeeded"):
        Forks(code + SERVER, {"PYTHONPATH": os.pathsep.join(sys.path)})


def test_missing_support_is_named_by_its_purpose() -> None:
    for call, words in (
        ("mount", "this system does not give namespaces"),
        ("/proc/7/uid_map", "this system does not give namespaces"),
        ("/root/lib", "a confined process cannot use /root/lib: Permission denied"),
        ("landlock_add_rule", "this system does not give Landlock"),
    ):
        found = support.lack(call, "Permission denied")
        assert found.message.startswith(words)
        assert found.diagnostics[0].notes


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "machine", lambda: "riscv64")
    with pytest.raises(HloError, match="cannot be confined on linux, riscv64"):
        forked.Forks("", {})


def test_a_fork_server_that_does_not_start_says_so() -> None:
    with pytest.raises(HloError, match="did not start"):
        Forks("pass", {})


def test_the_whole_way_takes_no_rights_of_root() -> None:
    """As root the tests are repeated by a user without rights, if there is a way to."""
    if os.geteuid() != 0:
        pytest.skip("this is a user without rights already")
    code = (
        "import os; os.setgroups([]); os.setresgid(*[12345] * 3); os.setresuid(*[12345] * 3)\n"
        "from hloc.confinement.forked import Forks\n"
        "from tests.unit.confinement.confined import SERVER, confined\n"
        "forks = Forks(SERVER, {'PYTHONPATH': os.environ['PYTHONPATH']})\n"
        "print(confined(forks, 'def attack(): return os.getuid()'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if "PermissionError" in done.stderr or "ModuleNotFoundError" in done.stderr:
        pytest.skip("Python or hloc lie in a folder of root")
    assert done.stdout == "('worked', 1000)\n", done.stderr


# ------------------------------------------------------------------ each layer without another

WITHOUT = """
from hloc.confinement import fork_server, process
fork_server.check = lambda: None
process.{layer} = lambda *_, **__: None
"""
USERS = "def attack(): return bool(open('/etc/passwd').read())"
LOOPBACK = "def attack(): return socket.create_connection(('127.0.0.1', {port}), 5) is None"
FORK = "def attack(): return os.fork() or os._exit(0)"
KILL = "def attack(): return os.kill({pid}, 0)"
NO_WAY = "OSError: .*Network is unreachable|PermissionError: .*Permission denied"
LAYERS = {
    "the file tree is gone": ("file_tree.enter", USERS, "PermissionError: .*Permission denied"),
    "Landlock is gone": ("landlock.restrict", USERS, "FileNotFoundError: .*No such file"),
    "no filter, the network": ("seccomp.install", LOOPBACK, NO_WAY),
    "no filter, processes": ("seccomp.install", FORK, "BlockingIOError: .*temporarily unavail"),
    "no filter, signals": ("seccomp.install", KILL, "ProcessLookupError: .*No such process"),
    "no limits, processes": ("_set_limits", FORK, "PermissionError: .*not permitted"),
}
"""A layer that does nothing; what is tried, and how another layer stops it."""


@pytest.mark.parametrize("what", LAYERS)
def test_where_one_layer_fails_another_holds(what: str) -> None:
    layer, code, expected = LAYERS[what]
    fork_server().close()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        try:
            forks = Forks(WITHOUT.format(layer=layer) + SERVER, {"PYTHONPATH": str(ROOT)})
        except HloError as fault:
            if layer != "file_tree.enter" or os.geteuid():
                raise
            pytest.skip(f"nobody cannot read the Python of root: {fault.message}")
        code = code.format(port=listener.getsockname()[1], pid=os.getpid())
        kind, words = confined(forks, code)
        forks.close()
    assert re.match(expected, f"{kind}: {words}")
