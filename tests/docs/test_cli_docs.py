"""The page of the command line: its commands print the output shown there, except for times."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from fungrad.cli.main import main
from fungrad.cli.parser import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the page speaks of."""
    shutil.copy(ROOT / "examples" / "old_faithful.py", tmp_path / "model.py")
    shutil.copy(ROOT / "src" / "fungrad" / "data" / "old_faithful.csv", tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def comparable(text: str) -> list[str]:
    """The lines without parts that differ between runs: times, shares, ratios and worst errors."""
    text = re.sub(r"[\d.e+]+ (ns|us|ms|s)\b", "TIME", text)
    text = re.sub(r"TIME +[\d.]+ +TIME", "TIME RATIO TIME", text)
    text = re.sub(r"[\d.]+% +\d+", "SHARE RUNS", text)
    text = re.sub(r"error \d\.\de-\d+", "error E", text)
    lines = [" ".join(line.split()).split(": worst")[0] for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("...")]


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split()[2] for block in BLOCKS])
def test_a_command_prints_what_the_page_shows(folder, capsys, block):
    command, _, shown = block.partition("\n")
    assert command.startswith("$ fungrad ")
    assert main(shlex.split(command)[2:]) == 0
    captured = capsys.readouterr()
    printed = comparable(captured.out.replace(f"{folder}/", ""))
    assert captured.err == ""
    assert [line for line in comparable(shown) if line not in printed] == []


def test_the_page_names_every_command():
    table = PAGE.split("| command | says |")[1].split("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert sorted(named) == sorted(command.name for command in COMMANDS)


def test_the_module_of_the_page_has_the_function_it_says(folder, capsys):
    (block,) = [block for block in BLOCKS if "--source slope.py" in block]
    assert main(shlex.split(block.splitlines()[0])[2:]) == 0
    assert "def regression_gradient(line, eruptions, waiting):" in Path("slope.py").read_text(
        encoding="utf-8"
    )
