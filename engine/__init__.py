"""The conversion engine: float model in, BPU integers, simulator and ``.bin`` out."""
