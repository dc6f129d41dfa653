"""Floor 5: structural primitives, whose parameters are Graphs, and the retracing that derives their
rules.

They stand above the transforms, because their rules are made by transforming the inner Graphs.
"""
