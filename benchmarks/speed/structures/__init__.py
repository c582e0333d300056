"""Networks that people deploy, at real size, with seeded weights: nothing is downloaded, nothing is trained."""

from benchmarks.speed.structures.catalogue import STRUCTURES, BenchStructure, build

__all__ = ["STRUCTURES", "BenchStructure", "build"]
