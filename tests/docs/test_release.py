"""What a release says of itself: one version, links that hold elsewhere, files that agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fungrad as fg

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SERIES = [
    found[1] for name in PROJECT["classifiers"] if (found := re.match(r".*:: (3\.\d+)$", name))
]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_stands_in_one_place():
    assert (
        re.findall(r"^## \[(\d.*?)\]", text_of("CHANGELOG.md"), re.MULTILINE)[0] == fg.__version__
    )
    assert "version" in PROJECT["dynamic"] and "version" not in PROJECT
    assert not re.search(r"^version:", text_of("CITATION.cff"), re.MULTILINE)


@pytest.fixture
def absolute(monkeypatch):
    pytest.importorskip("hatchling")
    monkeypatch.syspath_prepend(str(ROOT))
    import hatch_build

    return hatch_build.absolute


SAMPLE = """See [a page](docs/a.md), [a site](https://example.org), [below](#below).

![A picture,
described](docs/p.svg)

```python
table[0](x)
```
"""


def test_links_of_the_long_description_are_absolute(absolute):
    found = absolute(SAMPLE, "https://example.org/me/fungrad/", "1.2.3")
    at = "https://example.org/me/fungrad"
    assert f"[a page]({at}/blob/v1.2.3/docs/a.md)" in found
    assert f"![A picture,\ndescribed]({at}/raw/v1.2.3/docs/p.svg)" in found
    for same in ("[a site](https://example.org)", "[below](#below)", "table[0](x)"):
        assert same in found


def test_without_an_address_links_become_their_texts(absolute):
    found = absolute(SAMPLE, "", "1.2.3")
    assert "See a page, [a site](https://example.org)," in found and "picture" not in found
    assert "](docs" not in absolute(text_of("README.md"), "", "1")


def test_what_readme_links_to_is_there(absolute):
    links = re.findall(
        r"\]\(https://x\.org/\w+/v1/([^)#]*)", absolute(text_of("README.md"), "https://x.org", "1")
    )
    assert len(links) > 15
    assert all((ROOT / link).exists() for link in links)


def test_the_sdist_names_what_there_is():
    options = tomllib.loads(text_of("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]
    names = {name.lstrip("/") for name in options["sdist"]["include"]}
    assert {name for name in names if not (ROOT / name).exists()} <= {".github", ".ci"}
    assert {"docs", "tests", "src", "examples", "benchmarks", "notebooks"} <= names


def test_extras_are_documented_and_exist():
    extras = set(PROJECT["optional-dependencies"])
    page = text_of("docs/installation.md")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
    assert extras == set(re.findall(r"\w+", " ".join(rows)))
    for name in ("README.md", "docs/index.md", "docs/installation.md"):
        for asked in re.findall(r"'\.\[([\w,]+)\]'", text_of(name)):
            assert set(asked.split(",")) <= extras, name
    assert "native" in re.findall(r"'\.\[([\w,]+)\]'", text_of("README.md"))[0]


def test_versions_of_python_and_numpy_agree():
    page, workflow = text_of("docs/support.md"), text_of(".github/workflows/tests.yml")
    assert f"python: {SERIES}".replace("'", '"') in workflow
    assert PROJECT["requires-python"] == f">={SERIES[0]}"
    assert f"| Python (CPython) | {SERIES[0]} | {SERIES[-1]} |" in page
    (oldest,) = re.findall(r"numpy>=(.*)", PROJECT["dependencies"][0])
    assert f'numpy: "{oldest}.*"' in workflow and f"| NumPy | {oldest} |" in page


def test_the_conda_recipe_asks_for_the_same():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load(text_of("conda/recipe.yaml"))
    run = [requirement.replace(" ", "") for requirement in recipe["requirements"]["run"]]
    assert run == ["python" + PROJECT["requires-python"], *PROJECT["dependencies"]]
    (script,) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(script)]
    extras = PROJECT["optional-dependencies"]
    assert recipe["requirements"]["run_constraints"] == [
        requirement.replace(">=", " >=") for requirement in extras["native"] + extras["scipy"]
    ]
    assert all((ROOT / name).exists() for name in recipe["about"]["license_file"])


@pytest.mark.parametrize("name", ["tests", "nightly", "release"])
def test_workflows_are_jobs_of_steps(name):
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(text_of(f".github/workflows/{name}.yml"))
    assert {"name", True, "jobs"} <= set(workflow)  # YAML 1.1 reads the key `on` as true
    for job in workflow["jobs"].values():
        assert all("uses" in step or "run" in step for step in job["steps"])


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_commands_run_where_text_is_not_utf_8(encoding):
    """Files are opened with their encoding, and what cannot be printed does not end a command."""
    settings = {
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": f"{encoding}:strict",
        "PYTHONWARNDEFAULTENCODING": "1",
    }
    data, file = "src/fungrad/data/old_faithful.csv", "examples/old_faithful.py"
    command = ["fit", f"{file}:waiting_time", "--data", data, "--p0", "[54, 80, 3, 3]"]
    done = subprocess.run(
        [sys.executable, "-W", "error::EncodingWarning", "-m", "fungrad", *command],
        cwd=ROOT, capture_output=True, env={**os.environ, **settings},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"short" in done.stdout
