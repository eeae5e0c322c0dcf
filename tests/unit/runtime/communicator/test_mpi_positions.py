"""Which devices of an MPI job are stuck: told from where they are, without MPI."""

from hloc.runtime.communicator.mpi.positions import Peers, Position, stuck_devices


def at(rendezvous: int, *visits: int) -> Position:
    return Position(1, visits, rendezvous, rendezvous, rendezvous)


def over(*visits: int, run: int = 1) -> Position:
    return Position(run, visits, is_over=True)


def runs(*visits: int) -> Position:
    return Position(1, visits)


def stuck(positions: dict[int, Position], peers: Peers | None = None) -> tuple[int, ...]:
    def others(_exchange: int, device: int) -> tuple[int, ...]:
        return tuple(d for d in positions if d != device)

    return stuck_devices(positions, positions, peers or others)


def test_all_at_the_same_exchange_are_not_stuck() -> None:
    assert stuck({0: at(0, 1), 1: at(0, 1)}) == ()


def test_devices_at_different_exchanges_wait_for_good() -> None:
    assert stuck({0: at(0, 1, 0), 1: at(1, 0, 1)}) == (0, 1)


def test_a_device_that_still_runs_may_come() -> None:
    assert stuck({0: at(0, 1), 1: at(0, 1), 2: runs(0)}) == ()
    assert stuck({0: at(0, 1, 0), 1: at(1, 0, 1), 2: runs(0, 0)}) == (0, 1)


def test_a_device_that_has_ended_the_run_does_not_come() -> None:
    assert stuck({0: at(0, 1), 1: at(0, 1), 2: over(0)}) == (0, 1)
    assert stuck({0: at(0, 1), 1: over(0, run=0)}) == (), "it has yet to begin this run"


def test_a_device_is_only_slow_if_all_others_have_come_and_gone() -> None:
    assert stuck({0: at(0, 1, 0), 1: over(1, 0)}) == ()
    assert stuck({0: at(0, 1, 0), 1: at(1, 1, 1), 2: at(1, 1, 1)}) == ()


def test_the_same_exchange_in_another_round_is_another_place() -> None:
    assert stuck({0: at(0, 1), 1: at(0, 2)}) == (), "device 0 is on its way to device 1"
    assert stuck({0: at(0, 1, 0), 1: at(0, 2, 0), 2: at(1, 0, 1)}) == (0, 1, 2)


def test_other_groups_are_no_concern() -> None:
    pairs = {0: 1, 1: 0, 2: 3, 3: 2}
    positions = {0: at(0, 1), 1: over(0), 2: at(0, 1), 3: at(0, 1)}
    assert stuck(positions, lambda _exchange, device: (pairs[device],)) == (0,)


def test_a_device_that_waits_for_a_stuck_one_elsewhere_is_stuck_too() -> None:
    peers = {0: (1,), 1: (2,), 2: (1,)}
    positions = {0: at(0, 1, 0), 1: at(1, 0, 1), 2: over(0, 0)}
    assert stuck(positions, lambda _exchange, device: peers[device]) == (0, 1)


def test_a_device_that_moved_between_two_looks_is_not_stuck() -> None:
    before, now = {0: at(0, 1, 0), 1: at(0, 1, 0)}, {0: at(0, 1, 0), 1: at(1, 0, 1)}
    assert stuck_devices(before, now, lambda _exchange, device: (1 - device,)) == ()


def test_a_receiver_is_stuck_if_its_sender_has_ended_and_sent_less() -> None:
    received, sent = 0, 1

    def receiver(times: int) -> Position:
        return Position(1, (times, 0), received, 0, sent)

    def sender_only(_exchange: int, device: int) -> tuple[int, ...]:
        return (0,) if device == 1 else ()

    assert stuck({0: over(0, 2), 1: receiver(3)}, sender_only) == (1,)
    assert stuck({0: over(0, 3), 1: receiver(3)}, sender_only) == (), "it is on its way"
    assert stuck({0: runs(0, 2), 1: receiver(3)}, sender_only) == ()
