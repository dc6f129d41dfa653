"""The states of NumPy's and Python's global random generators, for code that is run again."""

from __future__ import annotations

from typing import Any

from fungrad.support.lazy import loaded


def random_states() -> tuple[Any, Any]:
    """The states of NumPy's and Python's global generators, if they are imported."""
    of_numpy, of_python = loaded("numpy.random"), loaded("random")
    return (
        None if of_numpy is None else of_numpy.get_state(),
        None if of_python is None else of_python.getstate(),
    )


def restore(states: tuple[Any, Any]) -> None:
    """Sets the generators to states that `random_states` returned."""
    of_numpy, of_python = states
    if of_numpy is not None:
        loaded("numpy.random").set_state(of_numpy)
    if of_python is not None:
        loaded("random").setstate(of_python)
