"""The stages of a trial besides those of a conversion, each in the module that its sources begin from."""
