"""Files of machine code, so that other processes need not compile it again.

A file's name is a digest of its code's inputs: the IR, LLVM and the processor. It is as safe as
`__pycache__`: folders and files that are not the user's own, or are open to others, are not used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import re
import stat
import sys
import time
import warnings
from pathlib import Path

from fungrad.compiler.native.llvm_ir import Module
from fungrad.compiler.native.machine_code import Built, host, loaded, object_code

OLDEST = 90 * 86_400.0
"""Seconds after which a file that nobody has read is removed."""
LARGEST = 256_000_000
"""The most bytes of all files; beyond it the least recently read files are removed."""
_DAY = 86_400.0
_DIGEST = 32
_NAME = re.compile(r"[0-9a-f]{64}\.o(\.\d+)*")
_count = itertools.count()


def build(module: Module) -> Built:
    """A module as functions in memory, from stored machine code if there is some."""
    ir, target = module.text(), host(module.quick)
    parts = [ir, target.name, *target.passes]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    store = opened()
    code = store.read(key) if store else None
    if code is None:
        code = object_code(ir, target)
        if store:
            store.write(key, code)
    return loaded(code, ir)


@functools.cache
def opened() -> Store | None:
    """The store of this process; None if it is off, or its folder cannot be used."""
    if os.environ.get("FUNGRAD_CACHE") == "0":
        return None
    try:
        return Store(_folder() / "native")
    except (OSError, RuntimeError) as error:  # no home, or a full or read-only disk
        warnings.warn(
            f"fungrad stores no machine code: {error}. Set FUNGRAD_CACHE_DIR to another folder, "
            "or FUNGRAD_CACHE=0 to store none.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def _folder() -> Path:
    """The user's folder for caches."""
    chosen = os.environ.get("FUNGRAD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "fungrad"
    if os.name == "nt":
        return Path(os.environ["LOCALAPPDATA"]) / "fungrad"
    within = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / within / "fungrad"


def _own(found: os.stat_result, others: int) -> bool:
    """Whether a file or folder is this user's, and others have none of these rights to it."""
    return os.name == "nt" or (found.st_uid == os.geteuid() and not found.st_mode & others)


class Store:
    """A folder of object files.

    Args:
      folder: its path; it is made if it does not exist.

    Raises:
      OSError: if it cannot be made, is not this user's, or is open to others.
    """

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or not _own(found, 0o077):
            raise PermissionError(f"{folder} is not a folder for this user alone (mode 0700)")
        self.folder = folder

    def read(self, key: str) -> bytes | None:
        """The code stored under a key; None if there is no undamaged file of this user's."""
        path = self.folder / f"{key}.o"
        try:
            with open(path, "rb", opener=_opened_itself) as file:
                found = os.fstat(file.fileno())
                data = file.read() if stat.S_ISREG(found.st_mode) and _own(found, 0o022) else b""
        except OSError:  # it does not exist, or was removed just now
            return None
        code = data[_DIGEST:]
        if not code or data[:_DIGEST] != _digest(key, code):
            return None
        if time.time() - found.st_mtime > _DAY:
            with contextlib.suppress(OSError):
                os.utime(path)
        return code

    def write(self, key: str, code: bytes) -> None:
        """Stores code under a key, atomically: other processes see all of it or nothing."""
        path = self.folder / f"{key}.o"
        aside = self.folder / f"{key}.o.{os.getpid()}.{next(_count)}"
        try:
            with open(aside, "xb", opener=_closed_to_others) as file:
                file.write(_digest(key, code) + code)
            os.replace(aside, path)
        except OSError:  # a full disk: the next process compiles again
            with contextlib.suppress(OSError):
                aside.unlink()
        self.prune_daily()

    def prune_daily(self) -> None:
        """Prunes, if no process has done so for a day."""
        stamp = self.folder / "pruned"
        try:
            if time.time() - stamp.stat().st_mtime < _DAY:
                return
        except OSError:
            pass
        with contextlib.suppress(OSError):
            stamp.touch(mode=0o600)
            self.prune()

    def prune(self) -> None:
        """Removes files that were not read for long, and the oldest if there are too many."""
        files = []
        for entry in os.scandir(self.folder):
            if _NAME.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    files.append((found.st_mtime, found.st_size, entry.path))
        size = 0
        for changed, length, path in sorted(files, reverse=True):
            size += length
            if size > LARGEST or time.time() - changed > OLDEST:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()


def _opened_itself(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _closed_to_others(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
