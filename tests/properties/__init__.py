"""Properties: each stage of a conversion is equivalent to the one before it."""
