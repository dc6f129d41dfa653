"""From an optimised Graph to the text of a program."""

from fungrad.compiler.lowering.structural import installed
from fungrad.support.lazy import Module

installed.installer = Module("fungrad.compiler.lowering.scalar.control_flow_rules")
