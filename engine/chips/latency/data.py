"""What every part of a performance file has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Data(BaseModel):
    """Base: immutable, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
