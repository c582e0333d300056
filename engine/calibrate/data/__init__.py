"""Calibration data, and which samples an option looks at."""
