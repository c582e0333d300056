"""Trials as files for the board: written, built by the user's toolchain, and compared with what was measured."""
