"""Compiled kernels of the fast simulator: a small machine that runs quantised networks from tables of instructions."""
