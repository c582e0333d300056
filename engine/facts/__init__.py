"""What is known of the nodes and tensors of an optimised graph: their devices, chains, and what moves what."""
