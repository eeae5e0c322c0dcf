"""The filter of system calls and the rights of Landlock, on both machines, without a kernel."""

import errno
import re
from pathlib import Path

import pytest

from hloc.confinement import landlock
from hloc.confinement.call_table import ALLOWED, REFUSED
from hloc.confinement.kernel import _NUMBERS, MACHINES
from hloc.confinement.seccomp import Instruction, program

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
THREAD = 0x003D0F00  # as pthread_create asks
NEW_USER = 0x10000000


def verdict(
    made: list[Instruction], architecture: int, number: int, arguments: tuple[int, ...] = ()
) -> int:
    """Return what a filter answers to a call: an interpreter of the BPF that it uses."""
    data = {0: number, 4: architecture}
    data |= {16 + 8 * i: value & 0xFFFFFFFF for i, value in enumerate((*arguments, *[0] * 6)[:6])}
    accumulator = at = 0
    while True:
        code, yes, no, operand = made[at]
        at += 1
        match code:
            case 0x20:
                accumulator = data[operand]
            case 0x54:
                accumulator &= operand
            case 0x15:
                at += yes if accumulator == operand else no
            case 0x35:
                at += yes if accumulator >= operand else no
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"code {code:#x}")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("threads", [False, True])
def test_every_call_gets_the_verdict_of_the_table(machine: str, threads: bool) -> None:
    made, which = program(machine, threads=threads), MACHINES.index(machine)
    assert len(made) <= 4096
    of = {numbers[which]: ALLOW for numbers in ALLOWED.values()}
    of |= {numbers[which]: REFUSE for numbers in REFUSED.values()}
    special = {CLONE[machine], *((157, 16, 158) if machine == "x86_64" else (167, 29))}
    for number in set(range(600)) - special:
        assert verdict(made, ARCHITECTURE[machine], number) == of.get(number, UNKNOWN), number


@pytest.mark.parametrize("machine", MACHINES)
def test_other_word_sizes_are_ended(machine: str) -> None:
    made = program(machine, threads=True)
    for architecture in (0x40000003, 0x40000028, 0):  # 32 bits, and none
        assert verdict(made, architecture, 0) == KILL
    if machine == "x86_64":
        assert verdict(made, ARCHITECTURE[machine], 0x40000000) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_clone_makes_threads_or_nothing(machine: str) -> None:
    number, architecture = CLONE[machine], ARCHITECTURE[machine]
    with_threads, without = program(machine, threads=True), program(machine, threads=False)
    assert verdict(with_threads, architecture, number, (THREAD,)) == ALLOW
    assert verdict(without, architecture, number, (THREAD,)) == REFUSE
    for flags in (0, 17, 0x01200011, THREAD | NEW_USER, NEW_USER):  # fork as the C library does it
        assert verdict(with_threads, architecture, number, (flags,)) == REFUSE
    assert verdict(with_threads, architecture, 435, (THREAD,)) == UNKNOWN  # clone3


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_are_allowed_by_their_argument(machine: str) -> None:
    made, architecture = program(machine, threads=False), ARCHITECTURE[machine]
    prctl, ioctl = (157, 16) if machine == "x86_64" else (167, 29)
    assert verdict(made, architecture, prctl, (15,)) == ALLOW
    for option in (1, 4, 22, 36, 38):  # the parent's death, dumps, seccomp, orphans, privileges
        assert verdict(made, architecture, prctl, (option,)) == REFUSE
    assert verdict(made, architecture, ioctl, (0, 0x5401)) == ALLOW
    for request in (0x5412, 0x541C, 0x540E):  # types into a terminal, or takes it
        assert verdict(made, architecture, ioctl, (0, request)) == REFUSE
    if machine == "x86_64":
        assert verdict(made, architecture, 158, (0x1023,)) == ALLOW
        assert verdict(made, architecture, 158, (0x1002,)) == REFUSE


def test_no_call_is_in_both_tables_and_none_has_two_numbers() -> None:
    assert not set(ALLOWED) & set(REFUSED)
    for which in range(2):
        numbers = [row[which] for row in (*ALLOWED.values(), *REFUSED.values())]
        known = [number for number in numbers if number is not None]
        assert len(known) == len(set(known))


HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+) (\d+)"),
    "aarch64": ("/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+) (\d+)"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_headers_of_linux(machine: str) -> None:
    path, pattern = HEADERS[machine]
    if not Path(path).exists():
        pytest.skip("the headers of Linux are not installed")
    said = {name: int(text) for name, text in re.findall(pattern, Path(path).read_text())}
    which = MACHINES.index(machine)
    for name, row in {**ALLOWED, **REFUSED, **_NUMBERS}.items():
        if name in said:
            assert row[which] == said[name], name
    assert len(set(said) & set(ALLOWED)) > 90


@pytest.mark.parametrize(
    ("abi", "files", "network", "scopes"),
    [
        (1, 0x1FFF, 0, 0), (2, 0x3FFF, 0, 0), (3, 0x7FFF, 0, 0), (4, 0x7FFF, 3, 0),
        (5, 0xFFFF, 3, 0), (6, 0xFFFF, 3, 3), (7, 0xFFFF, 3, 3), (9, 0xFFFF, 3, 3),
    ],
)  # fmt: skip
def test_a_version_of_landlock_is_asked_for_what_it_has(
    abi: int, files: int, network: int, scopes: int
) -> None:
    assert landlock.handled(abi) == (files, network, scopes)
