"""How long pictures of large Graphs take: to make, to open in a browser, and to answer a click.

`python -m benchmarks.pictures`. Needs selenium, Chromium and its driver; times are of this machine.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from selenium import webdriver

import fungrad as fg
from fungrad.inspect.draw.draw import Picture

ROUNDS = 5
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1280,900"
)
ACTIONS = {
    "unfold one": "toggle([...elements].find(e => e[1].node.body !== null && !open.has(e[0]))[0])",
    "unfold a level": "unfoldLevel()",
    "search": "search('sin'); next(1)",
}


def unrolled(x: Any) -> Any:
    """One long line of equations, as an unrolled loop gives."""
    for _ in range(500):
        x = np.sin(x) * 1.01
        x = x + np.exp(-x)
    return np.sum(x)


def scoped(x: Any) -> Any:
    """A hundred named scopes."""
    for i in range(100):
        with fg.named_scope(f"block{i}"):
            for _ in range(10):
                x = np.sin(x) * 1.01
    return np.sum(x)


def wide(x: Any) -> Any:
    """Many values side by side, summed in a tree."""
    ys = [np.sin(x[i]) * np.cos(x[(7 * i) % 300]) for i in range(300)]
    while len(ys) > 1:
        ys = [ys[i] + ys[i + 1] if i + 1 < len(ys) else ys[i] for i in range(0, len(ys), 2)]
    return ys[0]


def browser(profile: str) -> Any:
    """A headless Chromium with a profile of its own."""
    options = webdriver.ChromeOptions()
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.binary_location = shutil.which("chromium") or ""
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def measure(driver: Any, page: Path, f: Callable[..., Any], x: Any) -> str:
    """A row of the table: medians of several rounds."""
    graph = fg.make_jaxpr(fg.grad(f))(x)
    times: dict[str, list[float]] = {"make": [], "open": [], **{name: [] for name in ACTIONS}}
    for _ in range(ROUNDS):
        start = time.perf_counter()
        text = Picture(graph).to_html()
        times["make"].append(1e3 * (time.perf_counter() - start))
        page.write_text(text, encoding="utf-8")
        start = time.perf_counter()
        driver.get(page.as_uri())
        times["open"].append(1e3 * (time.perf_counter() - start))
        for name, action in ACTIONS.items():
            script = f"const t = performance.now(); {action}; return performance.now() - t"
            times[name].append(driver.execute_script(script))
    cells = [f"{statistics.median(found):.0f}" for found in times.values()]
    size = len(text.encode()) / 1e6
    return f"| {f.__name__} | {len(graph.equations)} | {size:.1f} | {' | '.join(cells)} |"


def main() -> None:
    """Prints the table."""
    print(f"| gradient of | equations | MB | make, ms | open | {' | '.join(ACTIONS)} |")
    print("|---|" + "---|" * (4 + len(ACTIONS)))
    with tempfile.TemporaryDirectory() as folder:
        driver = browser(f"{folder}/profile")
        try:
            for f, x in ((unrolled, np.ones(3)), (scoped, np.ones(3)), (wide, np.ones(300))):
                print(measure(driver, Path(folder) / "page.html", f, x))
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
