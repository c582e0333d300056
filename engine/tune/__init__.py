"""Tuning: what improves an integer model's accuracy beyond calibration, measured on the simulator."""

from engine.evaluate.similarity import Evaluator, Similarity
from engine.tune.mixed import LatencyBudget, Mix, MixedPrecisionSearch, TuningResult

__all__ = ["Evaluator", "LatencyBudget", "Mix", "MixedPrecisionSearch", "Similarity", "TuningResult"]
