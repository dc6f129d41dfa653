"""Pictures of Graphs: the content, in each form (test_draw_browser.py opens the page)."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from single import graphs

import fungrad as fg
from fungrad.errors import ArgumentError, MissingExtraError
from fungrad.inspect.draw.build_diagram import diagram
from fungrad.inspect.draw.diagram import LIMIT, Fold, folded, opened
from fungrad.inspect.draw.draw import Picture
from fungrad.inspect.draw.layout import place
from fungrad.ir.graph import Literal

ENGINES = [name for name in ("dot", "grandalf") if name == "grandalf" or shutil.which("dot")]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    """Each layout program that is installed."""
    if request.param == "grandalf":
        pytest.importorskip("grandalf")
        monkeypatch.setattr(shutil, "which", lambda name: None)
    return request.param


def loss(w, x):
    with fg.named_scope("encoder"):
        h = np.tanh(x @ w)
    target = fg.stop_gradient(np.exp(h), "target")
    return np.sum((h - target) ** 2)


ARGS = (np.ones((3, 2)), np.ones((5, 3)))


def looped(w, xs):
    def step(h, x):
        h = np.tanh(w @ h + fg.stop_gradient(x, "input"))
        return h, np.sum(h)

    h, ys = fg.lax.scan(step, np.zeros(3), xs)
    h = fg.lax.while_loop(lambda h: np.sum(h) < 3.0, lambda h: h * 2.0 + 0.1, h)
    return np.sum(fg.lax.cond(ys[0] > 0, np.sin, np.square, fg.jit(np.exp)(h)))


def unrolled(x):
    for _ in range(800):
        x = np.sin(x) * 1.01
        x = x + np.exp(-x)
    return np.sum(x)


def page_data(picture):
    found = re.search(r'id="data">(.*?)</script>', picture.to_html(), re.DOTALL)
    return json.loads(found[1])


def everything(diagram):
    return [node for body in diagram.bodies for node in body.nodes]


# -- the content -----------------------------------------------------------------------------------


KINDS = ("input", "output")


def test_every_equation_input_and_output_is_a_node_and_every_read_an_edge():
    graph = fg.make_jaxpr(lambda x, y: (np.sin(x) * y, x))(1.0, np.ones(3))
    (body,) = diagram(graph).bodies
    assert [(n.kind, n.title) for n in body.nodes] == [
        ("input", "a"), ("input", "b"), ("operation", "sin"), ("operation", "mul"),
        ("output", "d"), ("output", "a"),
    ]  # fmt: skip
    assert [(e.source, e.target) for e in body.edges] == [(0, 2), (2, 3), (1, 3), (3, 4), (0, 5)]
    assert body.edges[2].bytes == 24 and body.edges[2].type == "f64[3]"


def test_what_is_known_of_an_equation():
    picture = diagram(fg.make_jaxpr(loss)(*ARGS))
    (node,) = (n for n in everything(picture) if n.title == "tanh")
    assert node.text == "d:f64[5,2] = tanh c"
    assert node.code == "h = np.tanh(x @ w)" and node.scope == "encoder"
    assert node.place.startswith(f"{__file__}:") and node.place.endswith(" (loss)")
    assert node.bytes == 80 and node.family == "pointwise"


def test_a_gradient_shows_forward_and_backward_and_the_names_of_the_arguments():
    picture = fg.draw(fg.grad(loss))(*ARGS)
    top = diagram(picture.graph, ["w", "x"], ["output"]).bodies[0]
    lanes = {(n.kind, n.title): n.lane for n in top.nodes}
    assert lanes["input", "w"] == 0 and lanes["output", "output"] == 1
    assert sorted((n.title, n.lane) for n in top.nodes if n.kind == "group") == [
        ("encoder", 0), ("encoder", 1),
    ]  # fmt: skip
    assert "<title>loss</title>" in picture.to_html()
    named = {row[1] for row in page_data(picture)["bodies"][0][0]}
    assert {"w", "x", "output"} <= named


def test_many_inputs_and_outputs_stand_together_by_the_tree_that_they_are_of():
    def deep(p, x):
        for layer in p:
            x = np.tanh(x @ layer["w"] + layer["b"])
        return np.sum(x)

    params = [{"w": np.eye(3), "b": np.ones(3)} for _ in range(7)]
    found = fg.draw(fg.grad(deep))(params, np.ones(3))._diagram
    titles = {kind: [n.title for n in found.bodies[0].nodes if n.kind == kind] for kind in KINDS}
    assert titles["input"] == [*(f"p[{i}]: 2 arrays" for i in range(7)), "x"]
    assert titles["output"] == [f"output[{i}]: 2 arrays" for i in range(7)]
    first = next(n for n in found.bodies[0].nodes if n.kind == "input")
    assert first.bytes == 8 * (9 + 3)
    few = fg.draw(deep)(params[:2], np.ones(3))._diagram
    names = [n.title for n in few.bodies[0].nodes if n.kind == "input"]
    assert names == ["p[0]['b']", "p[0]['w']", "p[1]['b']", "p[1]['w']", "x"]


def test_loops_say_what_they_carry():
    def scanned(w, h, xs):
        return fg.lax.scan(lambda h, x: (w * h + x, h), h, xs)

    body = fg.draw(scanned)(2.0, 0.5, np.ones(3))._diagram.bodies[-1]
    titles = {kind: [n.title for n in body.nodes if n.kind == kind] for kind in KINDS}
    assert titles["input"] == ["a", "carry b", "each c"]
    assert titles["output"] == ["carry b", "stacked b"]

    def halved(h, end):
        return fg.lax.while_loop(lambda h: h > end, lambda h: h / 2, h)

    bodies = fg.draw(halved)(9.0, 1.0)._diagram.bodies
    inputs = [[n.title for n in body.nodes if n.kind == "input"] for body in bodies]
    assert ["a", "carry b"] in inputs and ["carry a"] in inputs


def test_draw_takes_trees_and_keywords():
    data = page_data(fg.draw(lambda p, *, n: {"s": p["w"] * n, "t": (n,)})({"w": 1.0}, n=2.0))
    names = [row[1] for row in data["bodies"][0][0] if row[0] in ("input", "output")]
    assert names == ["p['w']", "n", "output['s']", "output['t'][0]"]


def test_stops_cut_the_edge_that_enters_them_and_comparisons_too():
    def f(x):
        kept = fg.stop_gradient(x, "a <b> & 'c'")
        late = fg.stop_gradient(x, order=2)
        return np.where(x > 0, kept, late)

    (body,) = diagram(fg.make_jaxpr(f)(1.0)).bodies
    cuts = {(body.nodes[e.target].title, e.cut, e.name) for e in body.edges if e.cut}
    assert cuts == {
        ("stop_gradient", "stop", "“a <b> & 'c'”"),
        ("stop_gradient_order", "stop", "order ≥ 2"),
        ("gt", "zero", ""),
    }
    assert all(not e.cut for e in body.edges if body.nodes[e.target].title == "select")


def test_stops_inside_of_what_is_folded_are_counted():
    found = diagram(fg.make_jaxpr(looped)(np.eye(3), np.ones((4, 3))))
    (scan,) = (n for n in found.bodies[0].nodes if n.title == "scan")
    assert scan.stops == 1 and "✂" in scan.summary and scan.detail == "× 4"


def test_graphs_inside_of_equations_nest_and_are_made_once():
    double = fg.jit(lambda x: x * 2.0)
    found = diagram(fg.make_jaxpr(lambda x: double(double(x)))(1.0))
    calls = [n for n in found.bodies[0].nodes if n.title == "call"]
    assert len(calls) == 2 and calls[0].body == calls[1].body == 1 and len(found.bodies) == 2
    found = diagram(fg.make_jaxpr(looped)(np.eye(3), np.ones((4, 3))))
    groups = {n.title for n in everything(found) if n.kind == "group"}
    assert groups == {"branches[0]", "branches[1]", "cond", "body"}


@pytest.mark.slow
def test_every_primitive_at_every_sample_is_drawn():
    for name, graph, sample in graphs():
        found = diagram(graph)
        (node,) = (n for n in found.bodies[0].nodes if n.kind == "operation")
        assert node.title == sample.name, name
        assert len(page_data(Picture(graph))["bodies"]) == len(found.bodies)
        assert Picture(graph).to_mermaid().startswith("flowchart TB")
        assert Picture(graph).to_dot().startswith("digraph ")


# -- folding ---------------------------------------------------------------------------------------


def flat(items):
    return [e for item in items for e in (item.equations() if isinstance(item, Fold) else [item])]


def widest(items):
    inner = [widest(item.items) for item in items if isinstance(item, Fold)]
    return max([len(items), *inner])


@pytest.mark.parametrize("f", [unrolled, fg.grad(unrolled)])
def test_large_graphs_fold_into_levels_of_a_few_dozen(f):
    graph = fg.make_jaxpr(f)(1.0)
    items = folded(graph.equations)
    assert len(graph.equations) > 3000
    lanes = {e.backward for e in graph.equations}
    assert widest(items) <= LIMIT * len(lanes)
    assert sorted(map(id, flat(items))) == sorted(map(id, graph.equations))
    assert all(e.backward == item.backward for item in items for e in flat([item]))
    parts = [item.label for item in items if isinstance(item, Fold)]
    assert any(re.fullmatch(r"1–\d+ of 800: lines \d+–\d+", label) for label in parts)
    found = diagram(graph)
    assert len(opened(found)) < 60 and found.equations == len(graph.equations)


def test_scopes_functions_and_lines_group_what_belongs_together():
    def inner(x):
        for _ in range(30):
            x = np.sin(x)
        return x

    def f(x):
        with fg.named_scope("outer"):
            x = np.cos(x)
            with fg.named_scope("inner"):
                x = np.exp(np.exp(x))
        for _ in range(30):
            x = x + 1.0
        return inner(x)

    items = folded(fg.make_jaxpr(f)(1.0).equations)
    assert [(i.kind, i.label) for i in items] == [
        ("scope", "outer"), ("function", "f"), ("function", "inner"),
    ]  # fmt: skip
    assert [(i.kind, i.label) for i in items[0].items if isinstance(i, Fold)] == [
        ("scope", "inner")
    ]


def test_equations_without_a_line_fold_too():
    graph = fg.make_jaxpr(unrolled)(1.0)
    for equation in graph.equations:
        equation.source = None
    assert widest(folded(graph.equations)) <= LIMIT


def test_what_enters_and_leaves_a_group_is_what_it_reads_and_what_is_read_of_it():
    found = diagram(fg.make_jaxpr(loss)(*ARGS))
    (group,) = (n for n in found.bodies[0].nodes if n.kind == "group")
    inside = found.bodies[group.body].nodes
    assert [n.title for n in inside if n.kind == "enter"] == ["b", "a"]
    assert [n.title for n in inside if n.kind == "leave"] == ["d"]


def test_an_input_with_many_readers_is_drawn_again_beside_each():
    def f(x, y):
        return np.sin(x) + np.cos(x) * np.tan(x) + np.exp(x) * y

    (body,) = diagram(fg.make_jaxpr(f)(1.0, 2.0), ["x", "y"]).bodies
    again = [i for i, n in enumerate(body.nodes) if (n.kind, n.title) == ("enter", "x")]
    read = {
        title: [body.nodes[e.target].title for e in body.edges if e.source in numbers]
        for title, numbers in (("again", again), ("x", [0]), ("y", [1]))
    }
    assert read == {"again": ["cos", "tan", "exp"], "x": ["sin"], "y": ["mul"]}
    assert [n.title for n in body.nodes if n.kind == "input"] == ["x", "y"]


def test_every_read_is_an_edge_whichever_pass_it_crosses():
    def f(x):
        return np.sum(np.sin(x) * np.exp(x[0]))

    def step(x):
        x = x - 0.1 * fg.grad(f)(x)
        return x - 0.1 * fg.grad(f)(x)

    for each in (step, fg.hessian(f), fg.grad(lambda x: np.sum(fg.grad(f)(x)))):
        graph = fg.make_jaxpr(each)(np.ones(3))
        (body,) = diagram(graph).bodies
        read = [a for e in graph.equations for a in e.inputs] + list(graph.outputs)
        assert len(body.edges) == sum(not isinstance(a, Literal) for a in read)
        back = [body.nodes[e.target].lane - body.nodes[e.source].lane for e in body.edges]
        assert min(back) < 0 or each is not step


def test_a_value_of_the_forward_pass_stays_one_where_the_backward_pass_reads_it():
    found = diagram(fg.make_jaxpr(fg.grad(loss))(*ARGS))
    (group,) = (n for n in found.bodies[0].nodes if n.kind == "group" and n.lane == 1)
    ports = {
        n.title: (n.lane, n.backward) for n in found.bodies[group.body].nodes if n.kind == "enter"
    }
    assert ports == {"b": (1, 0), "d": (1, 0), "l": (1, 1)}  # x, the hidden layer, a cotangent


def test_unfold_says_how_much_is_shown():
    found = diagram(fg.make_jaxpr(looped)(np.eye(3), np.ones((4, 3))))
    assert opened(found, False) == set()
    assert len(opened(found, True)) == 1 + 1 + 2 + 1 + 2 + 1  # scan, while + 2, switch + 2, call


# -- the forms -------------------------------------------------------------------------------------

NASTY = 'a"b<c>&d\\e\n`f`#g</script><script>alert(1)</script>\u2028'


def nasty_graph():
    def f(x):
        with fg.named_scope(NASTY):
            x = np.sin(fg.stop_gradient(x, NASTY)) + np.cos(x)
        return x

    f.__name__ = NASTY
    return fg.make_jaxpr(f)(1.0)


def test_the_page_needs_nothing_else_and_nothing_breaks_out_of_it():
    text = Picture(nasty_graph()).to_html()
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", text)
    assert "@import" not in text and "url(" not in text
    assert text.count("</script>") == 3  # the data, dagre, and the program
    assert "alert(1)</script>" not in text
    names = {edge[6] for _, edges in page_data(Picture(nasty_graph()))["bodies"] for edge in edges}
    assert f"“{NASTY}”" in names


def test_dagre_comes_with_its_licence():
    text = Picture(nasty_graph()).to_html()
    assert "Chris Pettitt" in text
    folder = Path(__file__).parents[2] / "src/fungrad/inspect/draw/page"  # in a wheel: dist-info
    licence = (folder / "dagre.LICENSE.txt").read_text(encoding="utf-8")
    assert "Permission is hereby granted" in licence


def test_a_notebook_gets_the_page_in_a_frame_of_its_own():
    graph = fg.make_jaxpr(loss)(*ARGS)
    text = graph._repr_html_()
    inside = unescape(re.fullmatch(r'<iframe srcdoc="([^"]*)".*</iframe>', text, re.DOTALL)[1])
    assert inside == Picture(graph).to_html()
    assert 'sandbox="allow-scripts allow-downloads"' in text


def test_svg_is_xml_with_all_nodes_edges_and_hints(engine):
    for f in (loss, fg.grad(loss)):
        text = fg.draw(f, unfold=True)(*ARGS).to_svg()
        root = ElementTree.fromstring(text)
        words = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {"dot_general", "tanh", "stop_gradient", "w", "x", "“target”"} <= words
        titles = [e.text for e in root.iter("{http://www.w3.org/2000/svg}title")]
        assert any("h = np.tanh(x @ w)" in title and "80 bytes" in title for title in titles)
        assert text.count('class="scissors"') == 1 and "prefers-color-scheme: dark" in text
    assert ElementTree.fromstring(Picture(nasty_graph()).to_svg().replace("\u2028", ""))


def test_svg_of_nested_graphs_draws_inner_boxes_inside_of_outer_ones(engine):
    picture = Picture(fg.make_jaxpr(looped)(np.eye(3), np.ones((4, 3))), unfold=True)
    assert all(f">{title} · " in picture.to_svg() for title in ("cond", "body", "branches[1]"))
    assert "branches" not in Picture(picture.graph, unfold=False).to_svg()


@pytest.mark.slow
def test_svg_of_all_samples(engine):
    seen = set()
    for name, graph, sample in graphs():
        if sample.name in seen or (engine == "dot" and len(seen) > 25):
            continue
        seen.add(sample.name)
        ElementTree.fromstring(Picture(graph, unfold=True).to_svg()), name


def test_a_layout_puts_no_box_on_another_and_lines_where_they_belong(engine):
    sizes = [(60.0, 30.0), (80.0, 40.0), (50.0, 30.0), (70.0, 200.0), (20.0, 20.0)]
    lines = [(0, 1), (1, 2), (0, 2), (0, 3), (1, 3)]
    placed = place(sizes, lines, [0, 0, 0, 1, 1])
    boxes = [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for (x, y), (w, h) in zip(placed.centres, sizes, strict=True)
    ]
    for i, a in enumerate(boxes):
        assert a[0] >= 0 and a[1] >= 0 and a[2] <= placed.width and a[3] <= placed.height
        for b in boxes[i + 1 :]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    assert max(b[2] for b in boxes[:3]) < min(b[0] for b in boxes[3:])  # lanes stand side by side
    for (tail, head), spline in zip(lines, placed.splines, strict=True):
        for index, (x, y) in ((tail, spline[0]), (head, spline[-1])):
            left, top, right, bottom = boxes[index]
            assert left - 2 <= x <= right + 2 and top - 2 <= y <= bottom + 2
        assert len(spline) % 3 == 1
    assert placed.centres[0][1] < placed.centres[1][1] < placed.centres[2][1]


def test_without_a_layout_program_svg_says_what_to_install(monkeypatch):
    def none(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib, "import_module", none)
    picture = Picture(fg.make_jaxpr(np.sin)(1.0))
    with pytest.raises(MissingExtraError, match=r"fungrad\[draw\]"):
        picture.to_svg()
    assert picture._repr_svg_() is None


def test_dot_is_read_by_graphviz_and_says_what_is_cut(tmp_path):
    picture = fg.draw(fg.grad(loss), unfold=True)(*ARGS)
    text = picture.to_dot()
    assert re.search(r'style="dashed" label="✂ “target”"', text)
    assert text.count("subgraph cluster") == 2 and 'dir="back"' in text
    assert "h = np.tanh(x @ w)" in text
    program = shutil.which("dot")
    for each in (text, Picture(nasty_graph()).to_dot()):
        if program:
            done = subprocess.run([program, "-Tsvg"], input=each, capture_output=True, text=True)
            assert done.returncode == 0 and not done.stderr
        assert each.count("{") == each.count("}")


def test_mermaid_names_every_node_once_and_styles_every_edge():
    text = fg.draw(fg.grad(loss), unfold=True)(*ARGS).to_mermaid()
    names = re.findall(r"^ *(n[_\d]+)[\[(]", text, re.MULTILINE)
    assert len(names) == len(set(names))
    edges = re.findall(r"^ *(n[_\d]+) (-.*?) (n[_\d]+)$", text, re.MULTILINE)
    boxes = re.findall(r"subgraph (n[_\d]+)\[", text)
    assert {end for a, _, b in edges for end in (a, b)} <= {*names, *boxes}
    assert [wire for _, wire, _ in edges if "target" in wire] == ['-. "✂ “target”" .-x']
    styled = [int(n) for row in re.findall(r"linkStyle ([\d,]+)", text) for n in row.split(",")]
    assert sorted(styled) == list(range(len(edges)))
    nasty = Picture(nasty_graph()).to_mermaid()
    assert "<script" not in nasty and all(line.count('"') % 2 == 0 for line in nasty.split("\n"))


def test_save_chooses_by_the_ending(tmp_path):
    graph = fg.make_jaxpr(loss)(*ARGS)
    starts = {"html": "<!DOCTYPE html>", "dot": "digraph", "mmd": "flowchart"}
    for ending, start in starts.items():
        graph.save(tmp_path / f"x.{ending}")
        assert (tmp_path / f"x.{ending}").read_text(encoding="utf-8").startswith(start)
    assert graph.to_dot() == (tmp_path / "x.dot").read_text(encoding="utf-8")
    assert graph.to_mermaid() == (tmp_path / "x.mmd").read_text(encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"\.html, \.svg, \.dot, \.mmd"):
        graph.save(tmp_path / "x.png")


def test_the_command_line_draws(tmp_path, capsys, engine):
    (tmp_path / "model.py").write_text("import numpy as np\ndef f(w): return np.sum(np.sin(w))\n")
    main = importlib.import_module("fungrad.cli.main").main
    page, drawing = tmp_path / "out.html", tmp_path / "out.svg"
    options = ["--arg", "w=[1, 2]", "--grad", "--html", str(page), "--svg", str(drawing)]
    assert main(["ir", f"{tmp_path / 'model.py'}:f", *options]) == 0
    assert "drawn in" in capsys.readouterr().out
    assert "<title>f</title>" in page.read_text(encoding="utf-8")
    assert ">cos<" in drawing.read_text(encoding="utf-8")
    assert main(["ir", f"{tmp_path / 'model.py'}:f", *options[:3], "--html", "x.png"]) == 2
    assert "does not name the form of the picture" in capsys.readouterr().err
    assert main(["ir", f"{tmp_path / 'model.py'}:f", *options[:3], "--svg", "/no/x.svg"]) == 2
    assert "cannot be written" in capsys.readouterr().err
