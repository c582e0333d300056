"""One trial: what determines it, what it gives, and how its figures are computed."""
