from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kboot.store.ranges import Ranges, add, clip, gaps, prefix, subtract, total, union

SIZE = 40
pairs = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE))


def as_set(ranges: Ranges) -> set[int]:
    return {n for start, end in ranges for n in range(start, end)}


def built(steps: list[tuple[int, int]]) -> Ranges:
    ranges: Ranges = ()
    for start, end in steps:
        ranges = add(ranges, start, end)
    return ranges


@given(st.lists(pairs, max_size=12))
def test_ranges_are_a_set_of_bytes(steps: list[tuple[int, int]]) -> None:
    """Whatever is added in whatever order, the ranges hold exactly those bytes, sorted, with gaps between them."""
    ranges = built(steps)

    assert {n for start, end in steps for n in range(start, end)} == as_set(ranges)
    assert all(start < end for start, end in ranges)
    assert all(one[1] < other[0] for one, other in pairwise(ranges))


@given(st.lists(pairs, max_size=12))
def test_gaps_are_the_rest(steps: list[tuple[int, int]]) -> None:
    """Ranges and gaps together are the file, and share no byte."""
    ranges = built(steps)

    assert set(range(SIZE)) - as_set(ranges) == as_set(gaps(ranges, SIZE))
    assert SIZE == total(ranges) + total(gaps(ranges, SIZE))


@given(st.lists(pairs, max_size=8), st.lists(pairs, max_size=8), st.integers(0, SIZE))
def test_union_clip_and_prefix_agree_with_sets(
    one: list[tuple[int, int]], other: list[tuple[int, int]], at: int
) -> None:
    """union() is the set's, clip() keeps what lies below, prefix() is the first byte that is not here."""
    a, b = built(one), built(other)

    assert as_set(a) | as_set(b) == as_set(union(a, b))
    assert {n for n in as_set(a) if n < at} == as_set(clip(a, at))
    assert next(n for n in range(SIZE + 1) if n not in as_set(a)) == prefix(a)


@given(st.lists(pairs, max_size=12), pairs)
def test_subtracting_agrees_with_sets(steps: list[tuple[int, int]], less: tuple[int, int]) -> None:
    """Exactly the bytes of the range go, and what stays is sorted, without empty ranges."""
    start, end = min(less), max(less)
    left = subtract(built(steps), start, end)

    assert as_set(built(steps)) - set(range(start, end)) == as_set(left)
    assert all(a < b for a, b in left)
    assert list(left) == sorted(left)
