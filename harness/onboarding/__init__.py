"""A network of the user's own: its input, head, normalisation and data are read or guessed, and written as cards."""
