"""Long lines of Python, broken at their brackets, in the style of ruff and black.

Knows brackets, commas and strings; knows nothing of what the text means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

WIDTH = 88
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def _code(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside of strings, with their places."""
    place = 0
    while place < len(text):
        char = text[place]
        if char not in "\"'":
            yield place, char
            place += 1
            continue
        quote = text[place : place + 3] if text[place : place + 3] == char * 3 else char
        place += len(quote)
        while text[place : place + len(quote)] != quote:
            place += 2 if text[place] == "\\" else 1
        place += len(quote)


def _last_bracket(text: str) -> tuple[int, int] | None:
    """Where the last outermost pair of brackets that holds something opens and closes."""
    depth, start, found = 0, 0, None
    for place, char in _code(text):
        if char in _PAIRS:
            start = start if depth else place
            depth += 1
        elif char in _PAIRS.values():
            depth -= 1
            if depth == 0 and place > start + 1:
                found = (start, place)
    return found


def _parts(text: str) -> list[str]:
    """What stands between the commas outside of brackets."""
    depth, start, parts = 0, 0, []
    for place, char in _code(text):
        depth += (char in _PAIRS) - (char in _PAIRS.values())
        if char == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def wrapped(text: str, indent: str = "") -> list[str]:
    """The lines of a statement, each at most `WIDTH` wide where it has brackets to break at.

    >>> wrapped("f(" + "a, " * 40 + "b)")[:2]
    ['f(', '    a,']
    """
    place = _last_bracket(text) if len(indent + text) > WIDTH else None
    if place is None:
        return [indent + text]
    start, end = place
    inner = indent + "    "
    body = text[start + 1 : end].strip()
    parts = _parts(body)
    if len(parts) < 2 and not body.endswith(","):
        lines = wrapped(body, inner)
    elif len(inner + body) <= WIDTH and not body.endswith(","):
        lines = [inner + body]
    else:
        lines = [line for part in parts for line in wrapped(f"{part},", inner)]
    return [indent + text[: start + 1], *lines, indent + text[end:]]


def block(statements: Sequence[str], indent: str = "    ") -> str:
    """Statements, wrapped; the indentation that they begin with stays."""
    lines: list[str] = []
    for statement in statements:
        text = statement.lstrip(" ")
        lines += wrapped(text, indent + " " * (len(statement) - len(text)))
    return "\n".join(lines)


__all__ = ["WIDTH", "block", "wrapped"]
