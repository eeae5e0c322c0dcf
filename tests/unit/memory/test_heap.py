"""Packing: no overlap, aligned, never below the bound, near it on what real modules look like."""

from hypothesis import given
from hypothesis import strategies as st

from hloc.memory.heap import Request, alignment_of, pack

REQUESTS = st.lists(
    st.builds(
        lambda size, first, length: Request(size, first, first + length),
        st.integers(1, 1000),
        st.integers(0, 60),
        st.integers(0, 20),
    ),
    max_size=40,
)


@given(REQUESTS)
def test_requests_alive_together_do_not_overlap(requests: list[Request]) -> None:
    packing = pack(requests)
    assert packing.total_bytes >= packing.lower_bound_bytes
    placed = list(zip(requests, packing.offsets, strict=True))
    for i, (a, start) in enumerate(placed):
        assert start % alignment_of(a.size_bytes) == 0
        assert start + a.size_bytes <= packing.total_bytes
        for b, other in placed[:i]:
            if a.first <= b.last and b.first <= a.last:
                assert start + a.size_bytes <= other or other + b.size_bytes <= start


@given(REQUESTS)
def test_packing_is_the_same_every_time(requests: list[Request]) -> None:
    assert pack(requests) == pack(list(requests))


def test_buffers_that_follow_each_other_share() -> None:
    packing = pack([Request(100, i, i) for i in range(50)])
    assert packing.total_bytes == 100


def test_a_chain_needs_two_buffers() -> None:
    packing = pack([Request(64, i, i + 1) for i in range(1000)])
    assert packing.total_bytes == 2 * 64


def test_many_buffers_alive_together_are_packed_without_gaps() -> None:
    """Too many pairs for packing by size; packing by time is tight here as well."""
    packing = pack([Request(64, i, 10_000) for i in range(3_000)])
    assert packing.total_bytes == packing.lower_bound_bytes == 3_000 * 64


def test_scalars_share_a_cache_line() -> None:
    packing = pack([Request(4, 0, 9) for _ in range(16)] + [Request(100, 0, 9)])
    assert packing.total_bytes == 128 + 64


def test_nothing_needs_nothing() -> None:
    assert pack([]).total_bytes == 0
