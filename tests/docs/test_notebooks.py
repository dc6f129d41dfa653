"""The notebooks' stored files, and their tools for Graphs and memory.

`python notebooks/run.py` runs them whole, with their own assertions.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import fungrad as fg
from notebooks import (
    FOLDER,
    MACHINE_PATHS,
    PATHS,
    STOPS,
    agree,
    code_cells,
    held_bytes,
    listed,
    marked,
    read,
    stopped,
    texts,
)

# --- the stored files -----------------------------------------------------------------


def test_the_readme_lists_each_once_and_they_are_small():
    names = [name for section in listed().values() for name in section]
    assert sorted(names) == [path.stem for path in PATHS]
    numbers = [int(name[:2]) for name in sorted(names)]
    assert len(set(numbers)) == len(numbers) and len(listed()[STOPS]) == 10
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 3_000_000


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_they_are_stored_as_they_ran(path):
    notebook, cells = read(path), code_cells(path)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert all(output["output_type"] != "error" for output in outputs)
    assert all(output.get("name") != "stderr" for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    printed = "".join(texts(notebook))
    assert not MACHINE_PATHS.search(printed)
    if path.stem in listed()[STOPS]:
        assert "┗" in printed and "stop_gradient" in printed
    else:  # its cells can be pasted into a kernel that runs elsewhere
        modules = "|".join(part.stem for part in FOLDER.glob("*.py"))
        source = "\n".join("".join(cell["source"]) for cell in cells)
        assert not re.search(rf"^\s*(?:from|import) (?:{modules})\b|\.mplstyle", source, re.M)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_they_begin_with_mathematics_and_assert_what_they_say(path):
    first = read(path)["cells"][0]
    assert first["cell_type"] == "markdown" and "$" in "".join(first["source"])
    source = "\n".join("".join(cell["source"]) for cell in code_cells(path))
    assert source.count("assert ") >= 4


def test_texts_agree_by_words_and_nearby_numbers():
    assert agree("error 0.51 of 32\n", "error 0.52  of 32")
    assert not agree("error 0.5", "error 0.6")
    assert not agree("to 1e-12: True", "to 1e-12: False")
    assert not agree("off by 1e-3", "off by nan")


# --- their tools ----------------------------------------------------------------------


def test_what_a_stop_keeps_out_is_marked():
    def f(x):
        weight = fg.stop_gradient(np.exp(x), "weight")
        return np.sum(np.log(weight) * np.sin(x))

    graph = fg.make_jaxpr(f)(np.ones(3))
    found = {e.primitive.name: s for e, s in zip(graph.equations, stopped(graph), strict=True)}
    assert found["exp"] and found["log"] and not found["sin"] and not found["reduce_sum"]
    margins = [line[0] for line in marked(graph).splitlines()]
    assert margins == [" ", "┃", "┗", "┃", " ", " ", " ", " "]


def test_loops_are_marked_as_one():
    def f(x):
        last, _ = fg.lax.scan(lambda c, t: (np.tanh(c * t), None), 0.5, x)
        return fg.stop_gradient(last) * np.sum(x)

    lines = marked(fg.make_jaxpr(f)(np.ones(3))).splitlines()
    inside = [line for line in lines if "tanh" in line or "scan" in line]
    assert len(inside) == 2 and all(line.startswith("┃") for line in inside)


@pytest.mark.slow
def test_held_bytes_are_those_of_the_residuals():
    x = np.ones(1000)
    assert held_bytes(lambda x: np.sum(np.sin(np.exp(x))), x) >= 2 * x.nbytes
    assert held_bytes(lambda x: np.sum(fg.stop_gradient(np.sin(np.exp(x)))), x) < 100
