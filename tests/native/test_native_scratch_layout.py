"""Scratch memory: arrays share it only where they are not live at one time."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from fungrad.compiler.native.scratch_layout import packed, whole_lines
from fungrad.runtime.buffer_pool import LINE

Needs = list[tuple[int, int, int]]
"""Of each array the bytes, the time since the one before, and how long it is live."""
NEEDS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2), st.integers(0, 9)), max_size=40)


@given(NEEDS)
def test_arrays_share_memory_only_where_they_are_not_live_at_one_time(needs: Needs) -> None:
    sizes = [size for size, *_ in needs]
    firsts = list(itertools.accumulate(wait for _, wait, _ in needs))
    spans = [(first, first + n) for first, (*_, n) in zip(firsts, needs, strict=True)]
    offsets, total = packed(sizes, spans)
    assert all(offset % LINE == 0 for offset in offsets)
    ends = [offset + whole_lines(size) for offset, size in zip(offsets, sizes, strict=True)]
    held = list(zip(offsets, ends, spans, strict=True))
    for (a, b, (_, last)), (c, d, (first, _)) in itertools.combinations(held, 2):
        assert last < first or b <= c or d <= a
    live = [sum(b - a for a, b, (first, last) in held if first <= time <= last) for time in firsts]
    assert max(live, default=0) <= total == max(ends, default=0)


def test_gaps_beside_each_other_are_one() -> None:
    sizes = [LINE, LINE, LINE, 2 * LINE, 3 * LINE]
    spans = [(0, 0), (0, 0), (0, 9), (1, 9), (2, 9)]
    assert packed(sizes, spans) == ([0, LINE, 2 * LINE, 0, 3 * LINE], 6 * LINE)
    assert packed([LINE, 3 * LINE], [(0, 0), (1, 1)]) == ([0, 0], 3 * LINE)


def test_a_small_array_leaves_a_large_gap_to_a_large_one() -> None:
    large = 100 * LINE
    offsets, total = packed([large, large, LINE, large], [(0, 1), (1, 3), (2, 9), (3, 4)])
    assert total == 2 * large + LINE
    assert offsets == [0, large, 2 * large, 0]
    assert packed([2 * LINE, LINE, 1], [(0, 0), (1, 1), (1, 1)]) == ([0, 0, LINE], 2 * LINE)
