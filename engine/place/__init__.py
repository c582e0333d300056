"""Placement: BPU or CPU per node, and where thresholds stand."""

from engine.place.placement import NodeTypes, Placement, PlacementOptions, Refusal, place

__all__ = ["NodeTypes", "Placement", "PlacementOptions", "Refusal", "place"]
