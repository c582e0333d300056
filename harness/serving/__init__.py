"""``ptqlab serve``: all suites and nights of a working directory in a browser."""
