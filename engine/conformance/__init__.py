"""Conformance: recorded conversions of the original toolchain beside ours, stage by stage, and tables of them."""
