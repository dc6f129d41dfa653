"""Makes the long description of a release of README.md: its relative links become absolute.

The address of the source is the environment variable SOURCE_URL, which the release's workflow sets,
or the option `source` of `[tool.hatch.metadata.hooks.custom]`. Without one, relative links become
their texts, and pictures are left out: a page elsewhere has no files beside it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>(?!\w+:|#)[^)\s]+)\)")


def absolute(text: str, source: str, version: str) -> str:
    """Markdown whose relative links and pictures lead to a version of the source.

    Args:
      text: the Markdown.
      source: the address of the repository; "" if there is none.
      version: the version, whose tag is `v` and the version.
    """

    def replaced(found: re.Match[str]) -> str:
        picture, label, target = found["picture"], found["text"], found["target"]
        if not source:
            return "" if picture else label
        kind = "raw" if picture else "blob"
        return f"{picture}[{label}]({source.rstrip('/')}/{kind}/v{version}/{target})"

    parts = re.split(r"(^```.*?^```\n)", text, flags=re.MULTILINE | re.DOTALL)  # programs stay
    parts[::2] = [_LINK.sub(replaced, part) for part in parts[::2]]
    return "".join(parts)


class LongDescription(MetadataHookInterface):
    """Gives the metadata `readme`, and `urls` where the address of the source is known."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds both to the metadata of the project."""
        source = os.environ.get("SOURCE_URL") or self.config.get("source", "")
        root = Path(self.root)
        version = re.search(
            r'^__version__ = "(.*)"$',
            (root / "src" / "fungrad" / "__init__.py").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        if version is None:
            raise ValueError("src/fungrad/__init__.py has no line __version__ = ...")
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, source, version[1]),
        }
        if source:
            metadata["urls"] = {
                "Source": source,
                "Changelog": f"{source.rstrip('/')}/blob/v{version[1]}/CHANGELOG.md",
            }
