"""The page "Try it in the browser": what it computes, and, where Pyodide is, the page itself."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import sys
import threading
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "try.md").read_text(encoding="utf-8")
PROGRAM = re.search(r"<textarea[^>]*>(.*?)</textarea>", PAGE, re.DOTALL)[1]
PYODIDE = os.environ.get("FUNGRAD_PYODIDE", "")
"""A folder with Pyodide and NumPy."""


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def examine():
    run = module(DOCS / "static" / "try" / "examine.py").examine
    return lambda source: json.loads(run(source))


def test_the_program_of_the_page(examine):
    found = examine(PROGRAM)
    assert found["value"].startswith("0.45277") and found["gradient"].startswith("-1.1395")
    assert "sin" in found["ir"] and "wave = np.sin(2 * x)" in found["digits"]
    curve = found["curve"]
    assert len(curve["x"]) == len(curve["f"]) == len(curve["df"]) == 121 and curve["at"] == 1.2
    middle = (curve["f"][61] - curve["f"][59]) / (curve["x"][61] - curve["x"][59])
    assert middle == pytest.approx(curve["df"][60], rel=1e-2)


def test_arrays_and_values_outside_of_a_domain(examine):
    found = examine("import numpy as np\nf = lambda x: np.sum(x**2)\nat = np.array([1.0, 2.0])")
    assert found["gradient"] == "[2. 4.]" and found["curve"]["df"] == [2.0, 4.0]
    found = examine("import math\nf = lambda x: math.sqrt(x)\nat = 1.0")
    assert found["curve"]["f"][0] is None and found["curve"]["f"][-1] == 2.0


@pytest.mark.parametrize(
    "source, message",
    [
        ("at = 1.0", "NameError: The program has to define f."),
        ("f = lambda x: x", "has to define at"),
        ("f = lambda x: x +", "SyntaxError"),
        ("import numpy as np\nf = lambda x: x * np.ones(2)\nat = 1.0", "NonScalarOutputError"),
    ],
)
def test_errors_are_shown(examine, source, message):
    assert message in examine(source)["error"]


def test_a_folder_that_lacks_files(tmp_path):
    browser = module(DOCS / "browser.py")
    with pytest.raises(FileNotFoundError, match=r"lacks pyodide\.mjs"):
        browser.assemble(tmp_path / "site", tmp_path)


def test_the_page_has_what_its_program_looks_for():
    program = (DOCS / "static" / "try" / "page.js").read_text(encoding="utf-8")
    asked = set(re.findall(r'part\("(\w+)"\)', program)) | {"value", "gradient", "ir", "digits"}
    assert asked <= set(re.findall(r'id="try-(\w+)"', PAGE))


@pytest.fixture
def site(tmp_path):
    """A site of this page alone, with Pyodide, served on a free port."""
    html = re.search(r"```\{raw\} html\n(.*?)```", PAGE, re.DOTALL)[1]
    (tmp_path / "try.html").write_text(f"<!doctype html><title>t</title>{html}", encoding="utf-8")
    shutil.copytree(DOCS / "static" / "try", tmp_path / "_static" / "try")
    module(DOCS / "browser.py").assemble(tmp_path, Path(PYODIDE))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/try.html"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.skipif(not PYODIDE, reason="FUNGRAD_PYODIDE names no folder with Pyodide")
def test_the_page_in_a_browser(site, tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    for flag in ("headless", "no-sandbox", "disable-gpu", f"user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(f"--{flag}")
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        browser.get(site)
        part = lambda name: browser.find_element("id", f"try-{name}")  # noqa: E731
        part("run").click()
        WebDriverWait(browser, 150).until(lambda _: part("run").is_enabled())
        assert not part("state").text and not part("error").text
        assert part("value").text.startswith("0.45277")
        assert part("gradient").text.startswith("-1.1395")
        assert "sin" in part("ir").text and "correct digits" in part("digits").text
        assert len(part("plot").find_elements("tag name", "path")) == 2
        browser.execute_script("document.getElementById('try-program').value = 'f = 1'")
        part("run").click()
        WebDriverWait(browser, 30).until(lambda _: part("error").text)
        assert "has to define at" in part("error").text
    finally:
        browser.quit()
