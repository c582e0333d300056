"""Plain files of the lab: where they are found, how they are read, and where results are kept."""
