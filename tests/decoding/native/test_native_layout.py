"""Python and C agree on native.h, and the library exports nothing else."""

import subprocess
from ctypes import POINTER, Structure, c_int32, c_int64, c_void_p, sizeof
from pathlib import Path

import pytest
from helpers.native_code import needs_native

from seq2seq.decoding.native import build
from seq2seq.decoding.native.build import SOURCES
from seq2seq.decoding.native.layout import HEADER, parse_header

TEXT = """
#include <stdint.h>
/* A comment
 * of two lines. */
enum { NONE, SOME };
typedef struct {
    int32_t a, b; /* two */
    const float *c, *const *d;
} First;
typedef struct {
    First first;
    const First *rest;
    const void *e;
} Second;
S2S_API int64_t s2s_f(const Second *x, const float *y,
                      int32_t n);
S2S_API void s2s_g(void);
"""


def test_a_header_becomes_structures_and_functions() -> None:
    header = parse_header(TEXT)
    assert vars(header.constants) == {"NONE": 0, "SOME": 1}
    first, second = header.structs.First, header.structs.Second
    numbers = [("a", c_int32), ("b", c_int32), ("c", c_void_p), ("d", POINTER(c_void_p))]
    assert first._fields_ == numbers
    assert second._fields_ == [("first", first), ("rest", POINTER(first)), ("e", c_void_p)]
    assert header.functions == {
        "s2s_f": (c_int64, [POINTER(second), c_void_p, c_int32]),
        "s2s_g": (None, []),
    }


DECLARED, TYPED = "an enum, a typedef struct or a function", "a number, a struct or pointers"


@pytest.mark.parametrize(
    "line, allowed",
    [
        ("int32_t loose;", DECLARED),
        ("#if 1", DECLARED),
        ("enum { A = 3 };", DECLARED),
        ("enum colour { A };", DECLARED),
        ("struct Name { float x; };", DECLARED),
        ("typedef struct { union { float x; } y; } Name;", DECLARED),
        ("S2S_API float *f(void);", DECLARED),
        ("S2S_API float f(void);", DECLARED),
        ("S2S_API void f(void (*g)(void));", DECLARED),
        ("typedef struct { unsigned x; } Name;", TYPED),
        ("typedef struct { short x; } Name;", TYPED),
        ("typedef struct { float x[3]; } Name;", TYPED),
        ("typedef struct { int32_t x : 3; } Name;", TYPED),
        ("typedef struct { int8_t x; } Name;", TYPED),
        ("typedef struct { float ***x; } Name;", TYPED),
        ("typedef struct { Unknown *x; } Name;", TYPED),
        ("S2S_API void f(float);", TYPED),
        ("S2S_API void f(void x);", TYPED),
    ],
)
def test_unsupported_declarations_are_refused_with_their_line(line: str, allowed: str) -> None:
    number = TEXT.count("\n") + 1
    with pytest.raises(ValueError, match=f"native.h, line {number}: .* should be {allowed}"):
        parse_header(TEXT + line + "\nenum { OTHER };\n")


@needs_native
def test_structures_have_the_size_that_the_compiler_gives_them(tmp_path: Path) -> None:
    sizes = {name: sizeof(struct) for name, struct in vars(HEADER.structs).items()}
    assert len(sizes) > 5
    lines = [f'_Static_assert(sizeof({name}) == {size}, "{name}");' for name, size in sizes.items()]
    for name, struct in vars(HEADER.structs).items():
        assert issubclass(struct, Structure)
        for field, *_ in struct._fields_:
            at = getattr(struct, field).offset
            lines.append(f'_Static_assert(offsetof({name}, {field}) == {at}, "{name}.{field}");')
    source = tmp_path / "sizes.c"
    source.write_text("\n".join(["#include <stddef.h>", '#include "native.h"', *lines, ""]))
    subprocess.run(["cc", "-std=gnu11", f"-I{SOURCES}", "-fsyntax-only", str(source)], check=True)


@needs_native
def test_the_library_exports_only_what_the_header_declares() -> None:
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(build.build_library())]
    lines = subprocess.check_output(command, text=True).splitlines()
    symbols = {line.split()[0] for line in lines} - {"_init", "_fini"}
    assert symbols == set(HEADER.functions)
    assert all(symbol.startswith("s2s_") for symbol in symbols)


def test_no_member_is_named_like_its_type() -> None:
    for struct in vars(HEADER.structs).values():
        for name, kind in struct._fields_:
            assert name != kind.__name__, f"{struct.__name__}.{name}"
