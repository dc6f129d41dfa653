"""The walk over Graphs of numbers and of loops, and its rules: for Python and machine code."""

from fungrad.compiler.scalar.structural import installed
from fungrad.support.lazy import Module

installed.installer = Module("fungrad.compiler.scalar.control_flow_rules")
