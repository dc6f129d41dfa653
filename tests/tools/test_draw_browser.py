"""The HTML page in a real browser: it draws, folds, searches, tells, and says nothing on the
console.

Runs where selenium, a Chromium and its driver are installed; .ci/run installs them.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import fungrad as fg
from fungrad.inspect.draw.draw import Picture

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,  # the start of a browser
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium with its driver is installed"),
]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1280,900"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def visit(browser, tmp_path):
    """Opens a picture; at the end nothing may be on the console."""

    def opened(picture):
        path = tmp_path / "page.html"
        path.write_text(picture.to_html(), encoding="utf-8")
        browser.get(path.as_uri())
        return browser

    yield opened
    assert browser.get_log("browser") == []


def loss(w, x):
    with fg.named_scope("encoder"):
        h = np.tanh(x @ w)
    target = fg.stop_gradient(np.exp(h), "target")
    return np.sum((h - target) ** 2)


ARGS = (np.ones((3, 2)), np.ones((5, 3)))


def shown(browser):
    """The titles of the boxes that are drawn, and where their middles are."""
    script = """return [...document.querySelectorAll('#view .node')].map(g => {
        const b = g.firstChild.getBoundingClientRect();
        return [g.querySelector('.title').textContent, b.x + b.width / 2,
            b.y + b.height / 2]; });"""
    return browser.execute_script(script)


def element(browser, text):
    script = """return [...document.querySelectorAll('#view .node')].find(
        g => g.getAttribute('aria-label').startsWith(arguments[0]))"""
    return browser.execute_script(script, text)


def click(browser, text):
    script = """const b = arguments[0].querySelector('.title').getBoundingClientRect();
        return [b.x + b.width / 2, b.y + b.height / 2]"""
    x, y = browser.execute_script(script, element(browser, text))
    actions = webdriver.ActionChains(browser)
    actions.w3c_actions.pointer_action.move_to_location(int(x), int(y))
    actions.click().perform()


def point(browser, text):
    script = """const b = arguments[0].querySelector('.title').getBoundingClientRect();
        return [b.x + b.width / 2, b.y + b.height / 2]"""
    x, y = browser.execute_script(script, element(browser, text))
    actions = webdriver.ActionChains(browser)
    actions.w3c_actions.pointer_action.move_to_location(int(x), int(y))
    actions.perform()


@pytest.mark.slow
def test_forward_stands_left_of_backward_and_backward_goes_up(visit):
    browser = visit(fg.draw(fg.grad(loss))(*ARGS))
    places = {title: (x, y) for title, x, y in shown(browser)}
    lanes = [e.text for e in browser.find_elements("css selector", "#view .lane")]
    assert lanes == ["forward", "backward"]
    assert places["stop_gradient"][0] < places["broadcast_to"][0]
    assert places["w"][1] < places["exp"][1] < places["sub"][1]
    assert places["output"][1] < places["broadcast_to"][1]


def test_stopped_edges_are_dashed_red_and_carry_scissors_and_the_name(visit):
    browser = visit(fg.draw(loss)(*ARGS))
    (edge,) = browser.find_elements("css selector", "#view .edge.stopped")
    assert edge.value_of_css_property("stroke") == "rgb(211, 38, 63)"
    assert edge.value_of_css_property("stroke-dasharray") != "none"
    (name,) = browser.find_elements("css selector", "#view .cutname")
    assert name.text == "“target”"
    assert len(browser.find_elements("css selector", "#view .scissors")) == 1


def test_a_click_folds_and_unfolds_and_the_box_stays_where_it_is(visit):
    browser = visit(fg.draw(loss)(*ARGS))
    assert "tanh" in {title for title, *_ in shown(browser)}
    click(browser, "encoder")
    assert "tanh" not in {title for title, *_ in shown(browser)}
    assert element(browser, "encoder").get_attribute("aria-expanded") == "false"
    before = element(browser, "encoder").rect
    click(browser, "encoder")
    after = element(browser, "encoder").rect
    assert "tanh" in {title for title, *_ in shown(browser)}
    assert abs(before["x"] - after["x"]) < 3 and abs(before["y"] - after["y"]) < 3


def test_the_buttons_fold_everything_and_unfold_a_level(visit):
    def f(x):
        with fg.named_scope("outer"):
            with fg.named_scope("inner"):
                x = np.sin(np.cos(x))
            return np.exp(x) + 1.0

    browser = visit(Picture(fg.make_jaxpr(f)(1.0)))
    assert "sin" in {title for title, *_ in shown(browser)}
    browser.find_element("id", "fold").click()
    assert {title for title, *_ in shown(browser)} == {"a", "outer", "e"}
    browser.find_element("id", "unfold").click()
    found = {title.split(" ·")[0] for title, *_ in shown(browser)}
    assert "inner" in found and "sin" not in found


def test_hovering_tells_the_type_the_bytes_and_the_users_line(visit):
    browser = visit(fg.draw(loss)(*ARGS))
    tip = browser.find_element("id", "tip")
    assert not tip.is_displayed()
    point(browser, "exp")
    assert tip.is_displayed()
    for text in ("f64[5,2]", "80 B", "test_draw_browser.py:", "fg.stop_gradient(np.exp(h)"):
        assert text in tip.text
    lit = browser.find_elements("css selector", "#view .edge.lit")
    assert len(lit) == 2
    point(browser, "stop_gradient")
    assert "No derivative passes" in tip.text


def test_search_unfolds_what_it_finds_and_brings_it_into_view(visit):
    def f(x):
        for _ in range(500):
            x = np.sin(x) * 1.01
            x = x + 0.5
        return np.tanh(x)

    browser = visit(Picture(fg.make_jaxpr(f)(1.0)))
    assert not any(title == "tanh" for title, *_ in shown(browser))
    field = browser.find_element("id", "search")
    field.send_keys("np.tanh\n")
    assert browser.find_element("id", "found").text == "1 of 1"
    ((_, x, y),) = [found for found in shown(browser) if found[0] == "tanh"]
    assert 0 < x < 1280 and 60 < y < 900
    assert "hit" in element(browser, "tanh").get_attribute("class")
    field.clear()
    field.send_keys("no such thing")
    assert browser.find_element("id", "found").text == "none"


def test_the_keyboard_does_what_the_mouse_does(visit):
    browser = visit(fg.draw(loss)(*ARGS))
    browser.find_element("tag name", "body").send_keys("/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"
    node = element(browser, "encoder")
    browser.execute_script("arguments[0].focus()", node)
    node.send_keys("\n")
    assert element(browser, "encoder").get_attribute("aria-expanded") == "false"
    zoom = "return camera.k"
    before = browser.execute_script(zoom)
    browser.find_element("id", "view").send_keys("+")
    assert browser.execute_script(zoom) > before
    browser.find_element("id", "view").send_keys("0")


def test_the_legend_explains_what_is_there_and_nothing_else(visit):
    browser = visit(fg.draw(lambda x: np.sin(x) * 2.0)(1.0))
    legend = browser.find_element("id", "legend")
    assert legend.text.split("\n") == ["elementwise", "value"]
    visit(fg.draw(fg.grad(loss))(*ARGS))
    for text in ("linear algebra", "cotangent", "kept for the way back", "stopped ✂"):
        assert text in browser.find_element("id", "legend").text


def test_dark_and_light(visit):
    browser = visit(fg.draw(loss)(*ARGS))
    body = browser.find_element("tag name", "body")
    light = body.value_of_css_property("background-color")
    browser.find_element("id", "theme").click()
    assert body.value_of_css_property("background-color") != light


@pytest.mark.slow
def test_five_thousand_equations_open_with_a_few_dozen_boxes(visit):
    def f(x):
        for _ in range(1000):
            x = np.sin(x) * 1.01
            x = x + np.exp(-x)
        return np.sum(x)

    graph = fg.make_jaxpr(fg.grad(f))(np.ones(3))
    browser = visit(Picture(graph))
    assert len(graph.equations) > 5000 and 10 < len(shown(browser)) < 150
    assert f"{len(graph.equations)} equations" in browser.find_element("id", "count").text
    browser.find_element("id", "unfold").click()
    assert len(shown(browser)) < 500


@pytest.mark.slow
def test_a_frame_in_a_notebook_draws_too(browser, tmp_path):
    path = tmp_path / "notebook.html"
    graph = fg.make_jaxpr(loss)(*ARGS)
    path.write_text(f"<!DOCTYPE html><body>{graph._repr_html_() * 2}</body>", encoding="utf-8")
    browser.get(path.as_uri())
    for frame in browser.find_elements("tag name", "iframe"):
        browser.switch_to.frame(frame)
        assert "tanh" in {title for title, *_ in shown(browser)}
        browser.switch_to.default_content()
    assert browser.get_log("browser") == []
