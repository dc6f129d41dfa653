"""Ways in which the numbers of an array can come to a function: pickled, mapped from a file, in the
other byte order, read-only, from another process.

Each takes a plain array and returns one of the same numbers, shape and kind.
"""

from __future__ import annotations

import atexit
import functools
import io
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Way = Callable[[Any], Any]


class Named(np.ndarray):
    """A subclass without a behaviour of its own."""


class Labelled(np.ndarray):
    """A subclass with an attribute, which its views take over."""

    def __array_finalize__(self, obj: Any) -> None:
        self.label = getattr(obj, "label", "none")


# --- the dtype is another object ------------------------------------------------------------------


def pickled(protocol: int) -> Way:
    """The array as pickle, joblib, multiprocessing and Dask send it."""
    return lambda x: pickle.loads(pickle.dumps(x, protocol))


def out_of_band(x: Any) -> Any:
    """The array over a buffer that travelled beside the pickle."""
    buffers: list[Any] = []
    text = pickle.dumps(x, 5, buffer_callback=buffers.append)
    return pickle.loads(text, buffers=[bytearray(b.raw()) for b in buffers])


def of_dtype(change: Callable[[Any], Any]) -> Way:
    """The array with another dtype object for the same bits."""
    return lambda x: x.copy("K").view(change(x.dtype))


def described(dtype: Any) -> Any:
    """A dtype with metadata, as h5py and pandas make them."""
    return np.dtype(dtype, metadata={"unit": "m"})


def of_long_long(x: Any) -> Any:
    """The same integers as C's long long."""
    return x.copy("K").view({"i": np.longlong, "u": np.ulonglong}[x.dtype.kind])


def of_record(x: Any) -> Any:
    """A field of records, which lies unaligned between the others."""
    records = np.zeros(x.shape, [("before", "i1"), ("value", x.dtype), ("after", "i2")])
    records["value"] = x
    return records["value"]


def of_aligned_record(x: Any) -> Any:
    """A field of records that are padded."""
    fields = np.dtype([("before", "i1"), ("value", x.dtype)], align=True)
    records = np.zeros(x.shape, fields)
    records["value"] = x
    return records["value"]


# --- byte order, memory -----------------------------------------------------------------------


def swapped(x: Any) -> Any:
    """The other byte order: data of FITS files, NetCDF 3, the network."""
    return x.astype(x.dtype.newbyteorder("S"))


def swapped_in_file(x: Any) -> Any:
    """The other byte order, mapped from a file."""
    return mapped("r")(swapped(x))


def unaligned(x: Any) -> Any:
    """One byte after the beginning of a buffer."""
    order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
    text = b"\0" + x.tobytes(order)
    return np.frombuffer(text, x.dtype, x.size, offset=1).reshape(x.shape, order=order)


def unaligned_writeable(x: Any) -> Any:
    room = np.zeros(x.nbytes + 1, np.uint8)
    found = room[1:].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


def of_bytes(x: Any) -> Any:
    return np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape)


def of_bytearray(x: Any) -> Any:
    return np.frombuffer(bytearray(x.tobytes()), x.dtype).reshape(x.shape)


def of_memoryview(x: Any) -> Any:
    return np.asarray(memoryview(x.copy()))


def read_only(x: Any) -> Any:
    x = x.copy("K")
    x.flags.writeable = False
    return x


def of_dlpack(x: Any) -> Any:
    return np.from_dlpack(x.copy("K"))


# --- files ----------------------------------------------------------------------------------------


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="arrivals")


def _file() -> Path:
    with tempfile.NamedTemporaryFile(dir=_folder().name, suffix=".npy", delete=False) as file:
        return Path(file.name)


def mapped(mode: str | None) -> Way:
    """The array from a file of np.save, mapped into memory if `mode` is a mode."""

    def way(x: Any) -> Any:
        path = _file()
        np.save(path, x)
        found = np.load(path, mmap_mode=mode)  # type: ignore[arg-type]
        path.unlink()
        return found

    return way


def of_archive(x: Any) -> Any:
    """The array from a file of np.savez."""
    file = io.BytesIO()
    np.savez(file, x=x)
    file.seek(0)
    return np.load(file)["x"]


def of_raw_map(x: Any) -> Any:
    """np.memmap of a file without a header, as a plain view."""
    path = _file()
    x.tofile(path)
    found = np.asarray(np.memmap(path, x.dtype, "r", shape=x.shape))
    path.unlink()
    return found


# --- order and strides ----------------------------------------------------------------------------


def transposed(x: Any) -> Any:
    return np.ascontiguousarray(x.T).T


def strided(x: Any) -> Any:
    """Every second element of each axis."""
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    part = wide[tuple([slice(None, None, 2)] * x.ndim)]
    part[...] = x
    return part


def reversed_in_memory(x: Any) -> Any:
    """Negative strides along each axis."""
    turned = tuple([slice(None, None, -1)] * x.ndim)
    return np.ascontiguousarray(x[turned])[turned]


def broadcast(x: Any) -> Any:
    """A stride of 0 along each axis of equal slices."""
    for axis in range(x.ndim):
        first = x[(slice(None),) * axis + (slice(0, 1),)]
        if x.shape[axis] and np.array_equal(first, x[(slice(None),) * axis + (slice(1),)]):
            alike = np.broadcast_to(first, x.shape)
            x = alike if alike.tobytes() == x.tobytes() else x
    return x


def within(x: Any) -> Any:
    """The middle of a larger array."""
    wide = np.zeros([n + 3 for n in x.shape], x.dtype)
    part = wide[tuple([slice(1, n + 1) for n in x.shape])]
    part[...] = x
    return part


# --- another process ------------------------------------------------------------------------------


_ECHO = """
import pickle, sys
try:
    while True:
        pickle.dump(pickle.load(sys.stdin.buffer), sys.stdout.buffer)
        sys.stdout.buffer.flush()
except EOFError:
    pass
"""


@functools.cache
def _process() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", _ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(process.communicate)
    return process


def of_process(x: Any) -> Any:
    """Sent to another process and back."""
    process = _process()
    assert process.stdin is not None and process.stdout is not None
    pickle.dump(x, process.stdin)
    process.stdin.flush()
    return pickle.load(process.stdout)


WAYS: dict[str, Way] = {
    **{f"pickled, protocol {n}": pickled(n) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
    "pickled, out of band": out_of_band,
    "dtype copied": of_dtype(lambda d: np.dtype(d, copy=True)),
    "dtype with metadata": of_dtype(described),
    "dtype by newbyteorder": of_dtype(lambda d: d.newbyteorder("S").newbyteorder("S")),
    "dtype by newbyteorder =": of_dtype(lambda d: d.newbyteorder("=")),
    "dtype pickled": of_dtype(lambda d: pickle.loads(pickle.dumps(d))),
    "long long": of_long_long,
    "big-endian": swapped,
    "big-endian, pickled": lambda x: pickled(4)(swapped(x)),
    "big-endian, unaligned": lambda x: unaligned(swapped(x)),
    "big-endian, in a file": swapped_in_file,
    "big-endian, with metadata": lambda x: of_dtype(described)(swapped(x)),
    "saved": mapped(None),
    "saved by savez": of_archive,
    "mapped, r": mapped("r"),
    "mapped, r+": mapped("r+"),
    "mapped, c": mapped("c"),
    "mapped, raw": of_raw_map,
    "read-only": read_only,
    "bytes": of_bytes,
    "bytearray": of_bytearray,
    "memoryview": of_memoryview,
    "dlpack": of_dlpack,
    "unaligned": unaligned,
    "unaligned, writeable": unaligned_writeable,
    "unaligned, with metadata": lambda x: of_dtype(described)(x).copy() if x.ndim == 0 else
    unaligned(of_dtype(described)(x)),
    "packed record": of_record,
    "padded record": of_aligned_record,
    "Fortran": lambda x: np.array(x, order="F"),
    "Fortran, pickled": lambda x: pickled(5)(np.array(x, order="F")),
    "transposed": transposed,
    "strided": strided,
    "strided, pickled dtype": lambda x: of_dtype(described)(transposed(x)),
    "reversed": reversed_in_memory,
    "broadcast": broadcast,
    "within": within,
    "subclass": lambda x: x.copy("K").view(Named),
    "subclass with attribute": lambda x: x.copy("K").view(Labelled),
    "subclass, pickled": lambda x: pickled(4)(x.view(Named)),
    "another process": of_process,
}  # fmt: skip
"""The ways, by name."""


def applies(name: str, x: Any) -> bool:
    """Whether a way has a meaning for an array."""
    if name == "long long":
        return x.dtype.kind in "iu" and x.dtype.itemsize == 8
    if name in ("mapped, raw", "within", "transposed", "reversed") or "strided" in name:
        return bool(x.size and x.ndim)
    if name in ("dlpack", "bytes", "bytearray", "unaligned") or "unaligned" in name:
        return bool(x.size)
    if name.startswith("big-endian"):
        return x.dtype.itemsize > 1 and (bool(x.size) or "file" not in name)
    if name.startswith("mapped"):
        return bool(x.size)
    return True
