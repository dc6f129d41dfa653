"""Docstrings in the style of this project, as reStructuredText that cannot go wrong.

Knows paragraphs, `code` in single backticks, bullets, examples, literal blocks after `::`, and the
sections of arguments. Everything else is text, and is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

SECTIONS = {"Args": "", "Returns": "returns", "Raises": "raises", "Yields": "yields"}
ENTRY = re.compile(r"(\*{0,2}\w[\w.]*(?:, \*{0,2}\w[\w.]*)*): (.*)", re.DOTALL)
NEXT = re.compile(r"(?<=[.;]) (?=\*{0,2}[a-z]\w*(?:, \*{0,2}[a-z]\w*)*: )")
"""Between two arguments on one line: `x: an array. axis: an axis.`"""
CODE = re.compile(r"(``[^`]+``|`[^`]+`)")


def text(words: str) -> str:
    """A line of text: code marked as such, and every other sign meaning itself."""
    parts = CODE.split(" ".join(words.split()))
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f"``{part.strip('`')}``"
        else:
            parts[i] = re.sub(r"([\\*|`]|_(?!\w))", r"\\\1", part)
    return joined(parts)


def joined(parts: Sequence[str]) -> str:
    """The parts, kept apart where a letter follows code directly."""
    result = parts[0]
    for i, part in enumerate(parts[1:], start=1):
        before, after = result[-1:], part[:1]
        glue = before and after and not before.isspace() and not after.isspace()
        result += ("\\ " if glue and (i % 2 or after.isalnum()) else "") + part
    return result


def blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """The runs of lines between empty ones."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def indent(line: str) -> int:
    """How many spaces a line begins with."""
    return len(line) - len(line.lstrip())


def entries(block: Sequence[str]) -> list[str]:
    """The texts of a section, one for each line that is indented least and names something."""
    least = min(map(indent, block))
    found: list[str] = []
    for line in block:
        if (indent(line) == least and ENTRY.match(line.strip())) or not found:
            found.append(line.strip())
        else:
            found[-1] += " " + line.strip()
    return found


def section(name: str, block: Sequence[str]) -> list[str]:
    """The fields of a section of arguments, results or errors.

    Arguments are bullets: a field of Sphinx takes all names but the last for a type.
    """
    if name in ("Returns", "Yields"):
        return [f":{SECTIONS[name]}: {text(' '.join(block))}"]
    if name == "Args":
        told = [part for entry in entries(block) for part in NEXT.split(entry)]
        return [":Parameters:", *(f"  - {argument(entry)}" for entry in told)]
    result = []
    for entry in entries(block):
        match = ENTRY.match(entry)
        if match is None:
            result += ["", text(entry), ""]
        else:
            result.append(f":{SECTIONS[name]} {match[1]}: {text(match[2])}")
    return result


def argument(entry: str) -> str:
    """An argument, or several, in bold, and what is said of it."""
    match = ENTRY.match(entry)
    if match is None:
        return text(entry)
    names = ", ".join(f"**{name}**" for name in match[1].replace("*", "\\*").split(", "))
    return f"{names} – {text(match[2])}"


def paragraph(block: Sequence[str]) -> list[str]:
    """A paragraph, or a list of bullets."""
    if not block[0].lstrip().startswith("- "):
        return [text(" ".join(block))]
    result: list[str] = []
    for line in block:
        if line.lstrip().startswith("- ") or not result:
            result.append(line.strip()[2:])
        else:
            result[-1] += " " + line.strip()
    return [f"- {text(item)}" for item in result]


def converted(lines: Sequence[str]) -> list[str]:
    """The whole docstring."""
    result: list[str] = []
    literal = -1
    for block in blocks(lines):
        head = block[0].strip()
        if literal >= 0 and indent(block[0]) > literal:
            cut = min(map(indent, block))
            result += ["   " + line[cut:] for line in block] + [""]
            continue
        literal = -1
        if head.startswith(">>>"):
            cut = indent(block[0])
            result += [".. code-block:: pycon", ""]
            result += ["   " + line[cut:] for line in block] + [""]
            continue
        name = head.removesuffix(":")
        if head.endswith(":") and name in SECTIONS and len(block) > 1:
            result += [*section(name, block[1:]), ""]
            continue
        opens = block[-1].rstrip().endswith("::")
        if opens:
            literal = indent(block[0])
            block = [*block[:-1], block[-1].rstrip()[:-1]]
        result += [*paragraph(block), ""]
        if opens:
            result += [".. code-block:: python", ""]
    return result


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """What autodoc calls for each docstring."""
    lines[:] = converted(lines)


def setup(app: Any) -> dict[str, Any]:
    """Registers the conversion."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
