"""The members of a saved file, unpacked up to a limit, and arrays in NumPy's format.

Nothing is allocated for what a header claims before the bytes are there. Knows zip archives and the
format .npy; knows no Graph.
"""

from __future__ import annotations

import io
import math
import zipfile
from typing import IO, Any

import numpy as np

from fungrad.errors import SavedFileError

SPARE, RATIO = 2**26, 20
"""The default limits of unpacking: so many bytes, and so many times the size of the file."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Members:
    """Reads the members of an archive, each at most once, as long as their sum is below a limit."""

    def __init__(self, file: IO[bytes], limit: int | None) -> None:
        size = file.seek(0, io.SEEK_END)
        self._limit = self._left = SPARE + RATIO * size if limit is None else limit
        self._archive = zipfile.ZipFile(file)
        self._infos = {info.filename: info for info in self._archive.infolist()}

    def read(self, name: str) -> bytes:
        """The bytes of one member.

        Raises:
          SavedFileError: where there is none, or too much.
        """
        info = self._infos.pop(name, None)
        if info is None:
            raise SavedFileError(
                f"it is not a file that fg.save wrote, or it is damaged: it has no member {name!r}."
            )
        if info.compress_type not in METHODS or info.flag_bits & 1:
            raise SavedFileError(f"its member {name!r} is encrypted, or packed in another way.")
        self._left -= info.file_size
        if self._left < 0:
            raise SavedFileError(
                f"it unpacks to more than {self._limit} bytes; where you trust it, raise the "
                "limit: fg.load(path, max_bytes=...)."
            )
        with self._archive.open(info) as member:
            content = member.read(info.file_size)  # with a number, zipfile unpacks no more
            if len(content) != info.file_size or member.read(1):
                raise SavedFileError(f"its member {name!r} is not as long as it says.")
        return content

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """The arrays 0.npy, 1.npy and so on."""
        count = sum(name.endswith(".npy") for name in self._infos)
        return [array_of(self.read(f"{number}.npy")) for number in range(count)]


def array_of(content: bytes) -> np.ndarray[Any, Any]:
    """The array in a file of NumPy's format: a view of its bytes, read-only.

    Raises:
      SavedFileError: where it is not of numbers, or there are more or fewer bytes than it says.
      ValueError: where the header is not one of NumPy's.
    """
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in READERS:
        raise SavedFileError(f"an array is in version {version} of NumPy's format.")
    shape, fortran, dtype = READERS[version](file)
    if dtype.kind not in "biufc":
        raise SavedFileError(f"an array is of {dtype}, not of numbers (allow_pickle=False).")
    nbytes = math.prod(shape) * dtype.itemsize
    start = file.tell()
    if min(shape, default=0) < 0 or nbytes != len(content) - start:
        raise SavedFileError(
            f"an array of {dtype} and shape {shape} takes {nbytes} bytes; "
            f"{len(content) - start} are there."
        )
    array = np.frombuffer(content, dtype, math.prod(shape), start) if nbytes else np.empty(0, dtype)
    return array.reshape(shape, order="F" if fortran else "C")


READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

__all__ = ["Members", "array_of"]
