"""What a sweep covers: suites, their grids, and the settings that they vary."""
