"""Rewrites of the user's float network that make more of it run on the BPU, each proven equal and measured.

:func:`rewritings_of` tries them; ``docs/howto/rewrite.md`` shows the command.
"""

from __future__ import annotations

from engine.rewrite.proposals import Rewriting, rewrite_names, rewritings_of

__all__ = ["Rewriting", "rewrite_names", "rewritings_of"]
