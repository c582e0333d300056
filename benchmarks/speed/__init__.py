"""The benchmark suite for speed: networks at real size, bundled and recorded ones, beside int8 peers."""
