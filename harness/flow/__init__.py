"""The steps around a conversion that the toolchain's sample folders have: prepare data, look at one image, evaluate."""
