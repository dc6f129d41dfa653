"""Common parts of the tests of errors: all classes, and `raised`, which checks a message."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from fungrad import errors

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, (errors.FungradError, UserWarning))
}
DOCS = Path(__file__).parents[2] / "docs" / "errors.md"
X = np.array([1.0, 2.0, 3.0])


HERE = "the line of the failing lambda"


def raised(class_, f, *words):
    """Calls f, which has to raise; the message has to hold all words and the address of its
    entry.
    """
    with pytest.raises(class_) as info:
        f()
    message = str(info.value)
    assert type(info.value) is class_
    for word in words:
        if word is HERE:
            word = f"{f.__code__.co_filename}:{f.__code__.co_firstlineno} "
        assert word in message, f"{word!r} is not in: {message}"
    assert message.endswith(f"(more: fungrad explain {class_.__name__})")
    return info.value
