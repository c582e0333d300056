"""Sensitivity, accumulated error and distributions of a calibrated model."""
