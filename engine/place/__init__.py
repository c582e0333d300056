"""Placement: BPU or CPU per node, and where thresholds stand."""

from engine.place.devices import place_recorded
from engine.place.options import NodeTypes, Placement, PlacementOptions, Refusal
from engine.place.placement import decomposed, place

__all__ = ["NodeTypes", "Placement", "PlacementOptions", "Refusal", "decomposed", "place", "place_recorded"]
