"""Models: their cards, where their files come from, their float outputs, and how the bundled ones were trained."""
