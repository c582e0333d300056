"""Operators that no march has: the user's own, and the optimiser's composites."""
