"""Which stage of a conversion breaks its bound, and which node inside it."""
