"""What one pass over the calibration data leaves for all calibration methods."""
