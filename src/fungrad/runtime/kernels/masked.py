"""Selection from blocks by masks, in the way that costs least for how many elements are true.

Where few are, as at the places of a maximum, these are read and written alone. Else all bits of an
element are picked, or none: 0.3 ns an element and 0.1 to 0.4 for each choice, whatever the mask is;
np.where guesses which side comes next, and takes 0.5 where it is right and 3.5 where a mask is
random. The numbers are the same to the bit. Knows NumPy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FEW = 8
"""One in so many elements are few: a place costs about as much as so many elements of a mask."""
WIDTHS = 1, 2, 4, 8
"""The bytes of an element for which there are integers."""


class Mask:
    """A mask of which nothing is known."""

    __slots__ = ("mask",)

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def chosen(self, x: Any, out: Any, y: Any = None, t: Any = None) -> None:
        """Writes x where the mask is true, else y, zero where that is None; `out` is neither, and t
        is scratch.
        """
        np.copyto(out, np.where(self.mask, x, 0 if y is None else y))

    def added(self, x: Any, y: Any, out: Any, t: Any = None) -> None:
        """Writes x + y where the mask is true, else x; `out` may be x, and t is scratch, which may
        be an `out` that is not x.
        """
        np.add(x, np.where(self.mask, y, 0), out=out)

    def halved(self, x: Any, out: Any, t: Any) -> None:
        """Writes x / 2 where the mask is true, else x; `out` may be x, and t is scratch, which may
        be an `out` that is not x.
        """
        np.multiply(self.mask, -0.5, out=t)
        np.add(t, 1.0, out=t)
        np.multiply(x, t, out=out)

    def counted(self, axes: tuple[int, ...], out: Any) -> None:
        """Writes how many elements are true along the last axes."""
        np.add.reduce(self.mask, axes, None, out)

    def summed(self, y: Any, dtype: np.dtype[Any]) -> Any:
        """The sum over the first axis of y where the mask is true, for a mask of two axes."""
        return np.add.reduce(np.where(self.mask, y, 0), 0, dtype)


class All(Mask):
    """A mask that is true everywhere."""

    __slots__ = ()

    def chosen(self, x: Any, out: Any, y: Any = None, t: Any = None) -> None:
        """Writes x."""
        np.copyto(out, x)

    def added(self, x: Any, y: Any, out: Any, t: Any = None) -> None:
        """Writes x + y."""
        np.add(x, y, out=out)


class Few(Mask):
    """A mask of few true elements: their numbers, and the row of the last axis of each."""

    __slots__ = ("elements", "rows")

    def __init__(self, mask: Any, elements: Any) -> None:
        self.mask = mask
        self.elements = elements
        self.rows = elements // mask.shape[-1]

    def chosen(self, x: Any, out: Any, y: Any = None, t: Any = None) -> None:
        """Writes y, and x over it at the places."""
        if not self._places_of(out):
            Mask.chosen(self, x, out, y)
            return
        np.copyto(out, 0 if y is None else y)
        out.reshape(-1)[self.elements] = self._at(x)

    def added(self, x: Any, y: Any, out: Any, t: Any = None) -> None:
        """Writes x + 0, which is not x where that is -0.0, and x + y at the places."""
        if not self._places_of(out):
            Mask.added(self, x, y, out)
            return
        sums = self._at(x) + self._at(y)
        np.add(x, 0, out=out)
        out.reshape(-1)[self.elements] = sums

    def halved(self, x: Any, out: Any, t: Any) -> None:
        """Writes x, and halves it at the places."""
        if not self._places_of(out):
            Mask.halved(self, x, out, t)
            return
        if out is not x:
            np.copyto(out, x)
        out.reshape(-1)[self.elements] *= 0.5

    def counted(self, axes: tuple[int, ...], out: Any) -> None:
        """Counts the places."""
        rows = self.rows if len(axes) == 1 else self.elements // (self.mask.size // out.size)
        out[...] = np.bincount(rows, minlength=out.size).reshape(out.shape)

    def summed(self, y: Any, dtype: np.dtype[Any]) -> Any:
        """The sum of what stands at the places."""
        width = self.mask.shape[1]
        values = self._at(y)
        if values.ndim == 0:
            values = np.full(self.rows.shape, values)
        total = np.bincount(self.elements - self.rows * width, values, width)
        return total.astype(dtype, copy=False)

    def _places_of(self, out: Any) -> bool:
        """Whether the elements of an array are numbered in memory as those of the mask."""
        return out.shape == self.mask.shape and bool(out.flags.c_contiguous)

    def _at(self, x: Any) -> Any:
        """The elements of x, broadcast to the shape of the mask, at the places."""
        shape = self.mask.shape
        if np.size(x) == 1:
            return np.reshape(x, ())
        if x.shape == shape:
            return x.reshape(-1)[self.elements]
        if x.shape == (*shape[:-1], 1):
            return x.reshape(-1)[self.rows]
        return np.broadcast_to(x, shape)[np.unravel_index(self.elements, shape)]


class Words(Mask):
    """A mask that picks by integers of which all bits are set where it is true; they are kept where
    there is memory for that, else made for each choice.
    """

    __slots__ = ("words",)

    def __init__(self, mask: Any, words: Any = None) -> None:
        self.mask = mask
        self.words = None if words is None else _words(mask, words)

    def chosen(self, x: Any, out: Any, y: Any = None, t: Any = None) -> None:
        """Picks the bits of x or of y."""
        words = self._words_in(out if y is None else t, out.itemsize)
        if words is None:
            Mask.chosen(self, x, out, y)
            return
        bits, x = out.view(words.dtype), _bits(x, out)
        if y is None:
            np.bitwise_and(x, words, bits)
            return
        y = _bits(y, out)
        np.bitwise_xor(x, y, bits)
        np.bitwise_and(bits, words, bits)
        np.bitwise_xor(bits, y, bits)

    def _words_in(self, t: Any, width: int) -> Any:
        """The words of a width, those that are kept or such in t; None where there is neither."""
        if self.words is not None and self.words.itemsize == width:
            return self.words
        return None if t is None or width not in WIDTHS else _words(self.mask, t.view(f"i{width}"))

    def added(self, x: Any, y: Any, out: Any, t: Any = None) -> None:
        """Adds y or zero."""
        self.chosen(y, t)
        np.add(x, t, out=out)

    def summed(self, y: Any, dtype: np.dtype[Any]) -> Any:
        """The sum of y or zero."""
        values = np.empty(self.mask.shape, dtype)
        self.chosen(y, values)
        return np.add.reduce(values, 0)


def _words(mask: Any, out: Any) -> Any:
    """Writes integers of which all bits are set where the mask is true, none elsewhere."""
    np.copyto(out, mask)
    return np.negative(out, out)


def _bits(x: Any, out: Any) -> Any:
    """The bits of x as it would stand in `out`."""
    return np.asarray(x, out.dtype).view(f"i{out.itemsize}")


def known(mask: Any, words: Any = None, one_each: Any = None) -> Mask:
    """A mask, with what makes it cheap to pick by.

    Args:
      mask: a mask.
      words: memory for integers as wide as what is picked, None where they are not kept.
      one_each: an element that is true of each row, where that is known.
    """
    if mask.flags.c_contiguous:
        count = np.count_nonzero(mask)
        if count * FEW <= mask.size:
            alone = one_each is not None and count == one_each.size
            return Few(mask, one_each if alone else np.flatnonzero(mask))
        if count == mask.size:
            return All(mask)
    return Words(mask, words)


def attained(x: Any, y: Any, out: Any) -> None:
    """Writes whether x is y, where NaN is NaN."""
    np.equal(x, y, out=out)
    fewer = y if np.size(y) <= np.size(x) else x
    if np.isnan(fewer).any():
        np.logical_or(out, np.isnan(x) & np.isnan(y), out=out)


__all__ = ["WIDTHS", "Mask", "attained", "known"]
