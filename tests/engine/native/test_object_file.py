"""Objects of kernels: placed, their addresses filled in, refused where they need more."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from llvmlite import binding

from engine.native.object_file import ObjectFile, function_of_c

CODE = """
target triple = "x86_64-unknown-linux-gnu"
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
declare ptr @memset(ptr, i32, i64)
define i64 @entry(i64 %k) {
  %place = getelementptr [4 x i64], ptr @table, i64 0, i64 %k
  %value = load i64, ptr %place
  %sum = add i64 %value, 1
  ret i64 %sum
}
define void @fill(i64 %address, i64 %size) {
  %target = inttoptr i64 %address to ptr
  call ptr @memset(ptr %target, i32 7, i64 %size)
  ret void
}
"""
VARIABLE = """
target triple = "x86_64-unknown-linux-gnu"
@count = global i64 5
define i64 @entry() {
  %value = load i64, ptr @count
  ret i64 %value
}
"""


def compiled(code: str, path: Path, model: str = "large") -> Path:
    """An object of ``code`` for x86-64."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(codemodel=model, reloc="static")
    path.write_bytes(machine.emit_object(binding.parse_assembly(code)))
    return path


def test_functions_find_their_constants_and_those_of_c(tmp_path: Path) -> None:
    loaded = ObjectFile(compiled(CODE, tmp_path / "code.o"), function_of_c)
    assert set(loaded.addresses) == {"entry", "fill"}
    entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.addresses["entry"])
    assert [entry(k) for k in range(4)] == [11, 21, 31, 41]
    fill = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(loaded.addresses["fill"])
    text = ctypes.create_string_buffer(5)
    fill(ctypes.addressof(text), 4)
    assert text.raw == b"\7\7\7\7\0"


@pytest.mark.parametrize("content", [b"", b"no object" * 20, b"\x7fELF\x02\x01" + bytes(80)])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.o").write_bytes(content)
    with pytest.raises(ValueError, match="is no"):
        ObjectFile(tmp_path / "other.o", function_of_c)


def test_variables_and_short_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has variables"):
        ObjectFile(compiled(VARIABLE, tmp_path / "variable.o"), function_of_c)
    with pytest.raises(ValueError, match="relocation of kind"):
        ObjectFile(compiled(CODE, tmp_path / "small.o", "small"), function_of_c)


def test_a_function_that_c_does_not_have() -> None:
    assert function_of_c("memset")
    with pytest.raises(ValueError, match="has no does_not_exist"):
        function_of_c("does_not_exist")
