"""Command line tools: ``vendor``, which users of the original toolchain know, and ``lab``, those of ``ptqlab``."""
