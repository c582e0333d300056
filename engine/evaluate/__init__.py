"""The integer model on calibration data: how similar it is to the float one, and biases corrected by it."""
