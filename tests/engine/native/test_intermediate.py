"""numba stops at LLVM IR, and goes on as before afterwards."""

from __future__ import annotations

import numba

from engine.native.intermediate import intermediate_code


def test_libraries_hold_intermediate_code_alone() -> None:
    @numba.njit
    def doubled(x: int) -> int:
        return 2 * x

    with intermediate_code() as machine:

        @numba.njit
        def fourfold(x: int) -> int:
            return doubled(doubled(x))

        fourfold.compile((numba.int64,))
        compiled = fourfold.overloads[(numba.int64,)]
        names = {function.name for function in compiled.library._final_module.functions if not function.is_declaration}
        assert any("doubled" in name for name in names)  # linked, and neither inlined nor dropped
        assert machine.triple
    assert numba.njit(lambda x: 3 * x)(4) == 12
