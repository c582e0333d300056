"""How the bundled networks were made: ``python -m harness.zoo.training [names...]`` (needs the extra ``zoo``)."""
