"""No extreme value gives a silent wrong result, a warning of Python or an error that is not ours, at any entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.extremes import ENTRIES, KINDS, SAME, SLOW, outcome

REFUSED = ("complex", "text", "dates", "no samples", "other shape", "one number")
"""Nothing takes these as a sample."""
MODELS = tuple(entry for entry in ENTRIES if entry.startswith(("weights", "ptqlab")))
"""Their values are repeated to the shape of the weight."""


@pytest.mark.parametrize(
    "entry", [pytest.param(entry, marks=pytest.mark.nightly if entry in SLOW else ()) for entry in ENTRIES]
)
def test_every_kind_is_taken_rightly_or_refused(entry: str, tmp_path: Path) -> None:
    found = {kind: outcome(entry, kind, tmp_path / str(index)) for index, kind in enumerate(KINDS)}
    assert found["plain"] == found["Fortran order"] == "taken"
    assert all(message.strip() for message in found.values())
    if entry not in MODELS and "raw" not in entry:
        assert not [kind for kind in REFUSED if found[kind] == "taken"]
    if entry == "ptqlab evaluate":
        assert "hold NaN" in found["all nan"]
    if entry in MODELS and not entry.startswith("ptqlab"):  # those ask ONNX Runtime, which wants one type
        assert all(found[kind] == "taken" for kind in SAME)


def test_a_warning_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    monkeypatch.setitem(ENTRIES, "loud", lambda *_: warnings.warn("overflow", RuntimeWarning, stacklevel=1))  # type: ignore[arg-type]
    with pytest.raises(RuntimeWarning):
        outcome("loud", "plain", tmp_path / "loud")
