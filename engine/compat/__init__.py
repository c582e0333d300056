"""Lets scripts written for the original toolchain's Python packages run on this engine, unchanged.

:func:`install` puts look-alikes of ``horizon_tc_ui`` (``HB_ONNXRuntime``), ``horizon_nn.debug``, ``horizon_nn.api`` and
``horizon_nn.custom`` where ``import`` finds them; ``python -m engine.compat script.py`` does so and runs a script.
"""

from engine.compat.modules import install, uninstall

__all__ = ["install", "uninstall"]
