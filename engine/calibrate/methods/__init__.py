"""Calibration methods: from statistics to thresholds."""
