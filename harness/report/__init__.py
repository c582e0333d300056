"""A finished sweep for people: tables for the terminal and one HTML page."""
