"""Networks that people deploy, at real size, with seeded weights: nothing is downloaded, nothing is trained."""

from harness.bench.structures.catalogue import STRUCTURES, Structure, build

__all__ = ["STRUCTURES", "Structure", "build"]
