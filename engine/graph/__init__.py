"""One vocabulary for what nodes and tensors of a graph are to each other."""

from engine.graph.reading import float_readers, sole_reader, used_once

__all__ = ["float_readers", "sole_reader", "used_once"]
