"""Sweeps from suite to report: checked, run, judged, written, resumed, gated every night, cleaned away."""
