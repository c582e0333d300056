"""How the bundled networks were made: ``python -m harness.zoo_training [names...]`` (needs the extra ``zoo``)."""
