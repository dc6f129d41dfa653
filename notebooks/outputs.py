"""What notebooks printed: the texts of a notebook's cells, and whether two texts agree.

Knows the format of notebooks as plain data (nbformat 4); needs nothing but Python.
"""

from __future__ import annotations

import re
from typing import Any

NUMBER = re.compile(
    r"[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+]?\.\d+(?:[eE][-+]?\d+)?"
)
PATHS = re.compile(r"/(?:tmp|home|root|Users|work|var|usr|opt)/|ipykernel_|site-packages")


def texts(notebook: dict[str, Any]) -> list[str]:
    """What the code cells print, one text for each; pictures are left out."""
    result = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        parts: list[str] = []
        for output in cell["outputs"]:
            if not any(kind.startswith("image/") for kind in output.get("data", {})):
                parts += output.get("text") or output.get("data", {}).get("text/plain", "")
        result.append("".join(parts))
    return result


def numbers(text: str) -> list[float]:
    """The numbers of a text, in order; commas may group the thousands.

    >>> numbers("113,488 bytes in 3 arrays, of 1e3 or -.5: 12,5")
    [113488.0, 3.0, 1000.0, -0.5, 12.0, 5.0]
    """
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def agree(ours: str, theirs: str) -> bool:
    """Whether two texts have the same words, and numbers within 5 % or 0.02 of each other.

    >>> agree("at 97.3% after 40", "at 97.1% after 40"), agree("stopped: True", "stopped: False")
    (True, False)
    >>> agree("off by 3.0", "off by 4.0")
    False
    >>> agree("113,488 bytes", "113,440 bytes"), agree("113,488 bytes", "131,488 bytes")
    (True, False)
    """
    if NUMBER.sub("#", ours).split() != NUMBER.sub("#", theirs).split():
        return False
    pairs = zip(numbers(ours), numbers(theirs), strict=True)
    return all(abs(a - b) <= max(0.02, 0.05 * max(abs(a), abs(b))) for a, b in pairs)
