"""The packages that adapters are for."""

from __future__ import annotations

from types import ModuleType

from fungrad.errors import MissingExtraError
from fungrad.support.lazy import imported


def package(name: str, extra: str = "") -> ModuleType:
    """A package that an adapter needs, or one of its modules.

    Args:
      name: what to import.
      extra: the extra that installs it; by default the package's name.

    Raises:
      MissingExtraError: if it is not installed.
    """
    try:
        return imported(name)
    except ModuleNotFoundError as error:
        root = name.split(".")[0]
        raise MissingExtraError(
            f"The adapter for {root} needs {root} ({error}). Install it with: "
            f'pip install "fungrad[{extra or root}]"'
        ) from error
