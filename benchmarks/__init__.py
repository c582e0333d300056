"""Scripts that measure rather than test: ``python -m benchmarks.NAME``."""
