"""The commands that users of the original toolchain know."""
