"""The stages of a conversion, each in the module that its sources begin from."""
