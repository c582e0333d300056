"""Command ``ptqlab``."""


def main() -> None:
    """Entry point; replaced by the typer application."""
