"""Einsum as products of matrices."""

from __future__ import annotations

import pytest

from engine.rewrite.einsum import EinsumAsMatMul
from tests.engine.rewrite.networks import operators, rewritten, source, stays

HEADS = "r = Reshape(x, [1, 2, 16, 8]); "


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f'{HEADS}y = Einsum(r, r, equation="bhid,bhjd->bhij")', "MatMul"),
        (f'{HEADS}y = Einsum(r, W(1, 2, 8, 16), equation="b h i d, b h d j -> b h i j")', "MatMul"),
        (f'{HEADS}y = Einsum(r, r, equation="bhid,bhjd->bijh")', "MatMul"),
        ('y = Einsum(x, W(4, 6), equation="bchw,ck->bkhw")', "Conv"),
        ('y = Einsum(x, W(6, 4), equation="nchw,kc->nkhw")', "Conv"),
        ('y = Einsum(x, W(1, 4, 5), equation="bchw,bck->bkhw")', "MatMul"),
        ('y = Einsum(x, x, equation="bchw,bdhw->bcd")', "MatMul"),
        ('y = Einsum(x, W(8, 3), equation="bchw,wk->bchk")', "MatMul"),
        ('y = Einsum(x, x, equation="bchw,bchw->bchw")', "MatMul"),
        ('y = Einsum(x, W(8, 8), equation="bchw,hw->bc")', "MatMul"),
        ('y = Einsum(x, equation="bchw->bhwc")', "Transpose"),
    ],
)
def test_equations(text: str, kind: str) -> None:
    found = operators(rewritten(EinsumAsMatMul(), source(text)))
    assert kind in found
    assert "Einsum" not in found


@pytest.mark.parametrize(
    "text",
    [
        'y = Einsum(x, equation="bchw->bc")',
        'y = Einsum(x, W(4), W(8), equation="bchw,c,w->bh")',
        'y = Einsum(x, W(4, 3), equation="bchw,dk->bchd")',
    ],
)
def test_other_equations_stay_and_are_named(text: str) -> None:
    change = EinsumAsMatMul()
    assert stays(change, source(text))
    assert "stays on the CPU" in change.remarks[0]
