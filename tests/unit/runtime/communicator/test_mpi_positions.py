"""Which devices of an MPI job are stuck: told from where they are, without MPI."""

from hloc.runtime.communicator.mpi.positions import Position, stuck_devices


def everyone(count: int):  # type: ignore[no-untyped-def]
    return lambda _exchange, device: tuple(d for d in range(count) if d != device)


def stuck(positions: dict[int, Position], peers=None) -> tuple[int, ...]:  # type: ignore[no-untyped-def]
    return stuck_devices(positions, positions, peers or everyone(len(positions)))


AT_0, AT_1 = Position(1, 0, 1), Position(1, 1, 1)
RUNS, OVER = Position(1), Position(1, is_over=True)


def test_all_at_the_same_exchange_are_not_stuck() -> None:
    assert stuck({0: AT_0, 1: AT_0}) == ()


def test_devices_at_different_exchanges_wait_for_good() -> None:
    assert stuck({0: AT_0, 1: AT_1}) == (0, 1)


def test_a_device_that_still_runs_may_come() -> None:
    assert stuck({0: AT_0, 1: AT_0, 2: RUNS}) == ()
    assert stuck({0: AT_0, 1: AT_1, 2: RUNS}) == (0, 1)


def test_a_device_that_has_ended_the_run_does_not_come() -> None:
    assert stuck({0: AT_0, 1: AT_0, 2: OVER}) == (0, 1)
    assert stuck({0: AT_0, 1: Position(0, is_over=True)}) == (), "it has yet to begin this run"


def test_the_same_exchange_in_another_round_is_another_place() -> None:
    assert stuck({0: Position(1, 0, 1), 1: Position(1, 0, 2)}) == (0, 1)


def test_other_groups_are_no_concern() -> None:
    pairs = {0: 1, 1: 0, 2: 3, 3: 2}
    positions = {0: AT_0, 1: OVER, 2: AT_0, 3: AT_0}
    assert stuck(positions, lambda _exchange, device: (pairs[device],)) == (0,)


def test_who_waits_for_a_stuck_device_elsewhere_is_stuck_too() -> None:
    peers = {0: (1,), 1: (2,), 2: (1,)}
    positions = {0: AT_0, 1: AT_1, 2: OVER}
    assert stuck(positions, lambda _exchange, device: peers[device]) == (0, 1)


def test_a_device_that_moved_between_two_looks_is_not_stuck() -> None:
    before, now = {0: AT_0, 1: AT_0}, {0: AT_0, 1: AT_1}
    assert stuck_devices(before, now, everyone(2)) == ()
