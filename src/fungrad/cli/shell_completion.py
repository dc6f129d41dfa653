"""`fungrad completion`: shtab's script for a shell, written from the parser."""

from __future__ import annotations

import argparse
import importlib
import re
from argparse import Namespace
from typing import TextIO

from fungrad.cli.parse_values import InputError
from fungrad.cli.parser import parser
from fungrad.cli.shared import PASSED


def completion_command(options: Namespace, output: TextIO) -> int:
    """Writes the script, which holds all names: pressing TAB starts no Python.

    Raises:
      InputError: where shtab is not installed.
    """
    try:
        shtab = importlib.import_module("shtab")
    except ImportError:
        raise InputError("`fungrad completion` needs shtab: pip install 'fungrad[cli]'.") from None
    whole = parser()
    (commands,) = [a for a in whole._actions if isinstance(a, argparse._SubParsersAction)]
    for command in commands.choices.values():
        for action in command._actions:
            if re.search(r"\.(py|html|svg)\b", str(action.metavar or "")):
                action.complete = shtab.FILE
    output.write(shtab.complete(whole, options.shell))
    return PASSED
