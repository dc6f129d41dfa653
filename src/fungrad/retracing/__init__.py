"""Graphs made of Graphs by the transforms, each once."""
