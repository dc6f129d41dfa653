"""Checks a built site: `python docs/check_site.py build/docs`. Needs no network.

Every link within the site leads to a page and a place that exist; links that leave it are
well-formed; nothing is loaded from elsewhere; every error has its anchor, and every public name its
entry.
"""

from __future__ import annotations

import importlib
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import fungrad as fg

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src"}


class Page(HTMLParser):
    """The anchors of a page, the targets of its links, and the files that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        if "id" in given:
            self.places.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])


def well_formed(address: str) -> bool:
    """Whether an address outside of the site could be one."""
    parts = urlsplit(address)
    if parts.scheme == "mailto":
        return "@" in parts.path
    return parts.scheme == "https" and "." in parts.netloc and " " not in address


def broken_links(root: Path, pages: dict[Path, Page]) -> list[str]:
    """The broken links, one line each."""
    found = []
    for path, page in pages.items():
        name = path.relative_to(root)
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if not well_formed(link):
                    found.append(f"{name}: not an address: {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{name}: no such page: {link}")
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].places:
                    found.append(f"{name}: no such place: {link}")
        for address in page.loaded:
            if urlsplit(address).netloc:
                found.append(f"{name}: loads {address}")
    return found


def missing_entries(root: Path, pages: dict[Path, Page]) -> list[str]:
    """Errors without an anchor where their messages point to, and public names without an entry."""
    anchors = pages[root / "errors.html"].places
    errors = [
        name
        for name, value in vars(fg.errors).items()
        if isinstance(value, type) and issubclass(value, fg.errors.FungradError)
    ]
    found = [f"errors.html: no anchor for {n}" for n in errors if n.lower() not in anchors]
    entries = set().union(*(page.places for page in pages.values()))
    for module in ("", ".optimizers", ".sparse", ".dask"):
        namespace = importlib.import_module(f"fungrad{module}")
        for name in getattr(namespace, "__all__", dir(namespace)):
            value = getattr(namespace, name)
            own = str(getattr(value, "__module__", "")).startswith("fungrad")
            if name[0] != "_" and own and callable(value):
                if f"fungrad{module}.{name}" not in entries:
                    found.append(f"api: no entry for fungrad{module}.{name}")
    return found


def main() -> int:
    """Prints the errors; returns 1 if there are any."""
    root = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    found = broken_links(root, pages) + missing_entries(root, pages)
    links = sum(len(page.links) for page in pages.values())
    print("\n".join(found) or f"{len(pages)} pages, {links} links: all lead somewhere")
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
