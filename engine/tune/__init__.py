"""Tuning: what improves an integer model's accuracy beyond calibration, measured on the simulator."""

from engine.evaluate.similarity import Evaluator, Score
from engine.tune.mixed import Budget, Mix, MixedPrecisionSearch, TuningResult

__all__ = ["Budget", "Evaluator", "Mix", "MixedPrecisionSearch", "Score", "TuningResult"]
