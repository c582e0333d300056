"""What changes weights and biases to make up for quantisation."""
