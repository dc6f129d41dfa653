"""Graphs of one equation each, made of the samples of the primitives."""

from __future__ import annotations

from checks import OURS
from samples import SAMPLES, Sample

from fungrad.ir.graph import Equation, Graph, Literal, Source, Variable
from fungrad.ir.types import of_value


def graph_of(sample: Sample, source: Source | None = None) -> Graph:
    """The Graph that applies a primitive to inputs of a sample's types; numbers are literals."""
    primitive = OURS[sample.name]
    atoms = tuple(Literal(a) if of_value(a).weak else Variable(of_value(a)) for a in sample.args)
    types = primitive.infer([atom.type for atom in atoms], sample.params)
    outputs = tuple(Variable(type_) for type_ in types)
    equation = Equation(primitive, atoms, outputs, sample.params, source)
    inputs = tuple(atom for atom in atoms if isinstance(atom, Variable))
    return Graph(inputs, (), (equation,), outputs, sample.name)


def graphs() -> list[tuple[str, Graph, Sample]]:
    """One for every sample of every primitive."""
    return [
        (f"{name}-{index}", graph_of(sample), sample)
        for name in sorted(SAMPLES)
        for index, sample in enumerate(SAMPLES[name])
    ]
