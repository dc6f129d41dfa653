"""From an optimised Graph to the text of a program."""

from fungrad.compiler.lowering.structural import Installed
from fungrad.support.lazy import Module

Installed.rules = Module("fungrad.compiler.lowering.scalar.control_flow_rules")
