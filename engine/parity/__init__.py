"""The original's quirks: what it does that no document says, each with its evidence, and which of them decided what."""

from engine.parity.decisions import decided, quirks_of, record
from engine.parity.quirks import QUIRKS, Quirk, quirk

__all__ = ["QUIRKS", "Quirk", "decided", "quirk", "quirks_of", "record"]
