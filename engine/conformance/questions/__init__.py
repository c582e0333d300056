"""Small networks that ask the original what no recorded conversion tells: ``ptqlab conformance questions``."""

from __future__ import annotations

from engine.conformance.questions.files import write_questions
from engine.conformance.questions.questions import QUESTIONS, Question

__all__ = ["QUESTIONS", "Question", "write_questions"]
