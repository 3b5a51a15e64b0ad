"""A C++ string, compiled and called: right results, and an error instead of a crash for every call that does not fit."""

import copy
import pickle

import pytest
import torch

from bottega.runtime import ArgumentError, CompileError, UnavailableError, cpp
from bottega.runtime.cplusplus import _compiler

EVERYTHING = r"""
#include <cstdint>
#include <cstddef>
extern "C" double sum_all(int8_t a, uint8_t b, short c, unsigned short d, int e, unsigned f, long long g, size_t h,
                          float i, double j, bool k) {
  return a + b + c + d + e + (double)f + g + (double)h + i + j + k; }
extern "C" int64_t wide(int64_t n) { return n + 1; }
extern "C" int whole(int n) { return -n; }
extern "C" float half_of(float x) { return x / 2; }
extern "C" bool is_null(const void* p) { return p == nullptr; }
extern "C" const float* same(const float* p) { return p; }
extern "C" void fill(float* x, int n, float value) { for (int i = 0; i < n; ++i) x[i] = value; }
extern "C" void bytes(const uint8_t* x, const uint16_t* y, const int* z, const long* w, const bool* m, const double* d) {}
struct Pair { int a, b; };
extern "C" int by_value(Pair p) { return p.a; }
extern "C" Pair gives_pair() { return {1, 2}; }
"""


@pytest.fixture
def library():
    return cpp(EVERYTHING)


def test_numbers_keep_their_declared_width(library) -> None:
    assert (
        library.sum_all(-1, 255, -3, 4, 5, 2**32 - 1, -7, 8, 0.5, 0.25, True)
        == 255 - 1 - 3 + 4 + 5 + 2**32 - 1 - 7 + 8 + 0.75 + 1
    )
    assert library.wide(2**62) == 2**62 + 1
    assert library.whole(5) == -5
    assert library.half_of(3) == 1.5
    assert library.half_of(float("inf")) == float("inf")
    assert library.half_of(float("nan")) != library.half_of(float("nan"))


def test_pointers_take_tensors_addresses_and_none(library) -> None:
    x = torch.zeros(4)
    library.fill(x, 4, 2.5)
    assert x.tolist() == [2.5] * 4
    library.fill(x.data_ptr(), 2, 1)
    assert x.tolist() == [1, 1, 2.5, 2.5]
    assert library.is_null(None) is True and library.is_null(x) is False
    assert library.same(x) == x.data_ptr()
    assert library.is_null(torch.zeros(2, dtype=torch.complex128)) is False  # void* takes any tensor
    library.fill(torch.nn.Parameter(torch.zeros(4)), 4, 1.0)
    carried = (torch.bool, torch.bfloat16, torch.int32, torch.int64, torch.bool, torch.float64)
    library.bytes(*[torch.zeros(1, dtype=dtype) for dtype in carried])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda f, x: f.fill(x, 4), r"fill\(float\* x, int n, float value\) takes 3 arguments, but 2"),
        (lambda f, x: f.fill(x.double(), 4, 1.0), "argument 1 .*takes float32.*torch.float64"),
        (lambda f, x: f.fill(x[::2], 2, 1.0), "non-contiguous.*contiguous"),
        (lambda f, x: f.fill(x.to("meta"), 4, 1.0), "CPU tensor.*meta"),
        (lambda f, x: f.fill([1.0], 1, 1.0), "takes a tensor, an address or None, but got list"),
        (lambda f, x: f.fill(-5, 1, 1.0), "no address"),
        (lambda f, x: f.fill(True, 1, 1.0), "takes a tensor"),
        (lambda f, x: f.fill(x, 4.0, 1.0), "argument 2 .*whole number.*float 4.0"),
        (lambda f, x: f.fill(x, 2**31, 1.0), "does not fit into 32 bits.*declare it int64_t"),
        (lambda f, x: f.fill(x, torch.tensor(4), 1.0), "x.item()"),
        (lambda f, x: f.fill(x, 4, x[0]), "x.item()"),
        (lambda f, x: f.fill(x, 4, "1"), "takes a number, but got str '1'"),
        (lambda f, x: f.fill(x, 4, 1e39), "does not fit into a float"),
        (lambda f, x: f.fill(x, 4, None), "takes a number"),
        (lambda f, x: f.sum_all(0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0), "argument 2 .*does not fit into 8 bits"),
        (lambda f, x: f.sum_all(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2), "True or False"),
        (lambda f, x: f.by_value(1), "cannot be passed by value"),
        (lambda f, x: f.gives_pair(), "returns Pair"),
        (lambda f, x: f.bytes(x, None, None, None, None, None), "takes int8 or uint8"),
        (lambda f, x: f.bytes(None, None, None, None, x.to(torch.uint8), None), "takes bool"),
    ],
)
def test_a_call_that_does_not_fit_raises(library, call, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call(library, torch.zeros(4))


def test_a_name_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"'b'.*found: a"):
        cpp('extern "C" void a(int n) {}').b  # noqa: B018


def test_functions_behind_the_preprocessor_or_static_are_left_out() -> None:
    library = cpp('#if 0\nextern "C" void a() {}\n#endif\nextern "C" { static void c() {} void b() { c(); } }')
    library.b()
    assert not hasattr(library, "a") and not hasattr(library, "c")


def test_errors_carry_their_line_and_its_text() -> None:
    with pytest.raises(CompileError) as caught:
        cpp('extern "C" void f(float* y) {\n  y[0] = 1;\n  y[1] = foo(2);\n  return 3;\n}')
    text = str(caught.value)
    assert "line 3: error: 'foo' was not declared" in text and "    y[1] = foo(2);" in text
    assert "line 4: error:" in text
    assert len(text.splitlines()) <= 10 and len(caught.value.log) > len(text) / 2
    assert pickle.loads(pickle.dumps(caught.value)).log == caught.value.log


def test_many_errors_are_counted_not_listed() -> None:
    body = "\n".join(f"  y[{i}] = unknown_{i};" for i in range(30))
    with pytest.raises(CompileError) as caught:
        cpp('extern "C" void f(float* y) {\n' + body + "\n}")
    assert "... and 26 more errors" in str(caught.value) and len(str(caught.value).splitlines()) <= 10


def test_an_error_inside_a_header_names_the_line_that_asked_for_it() -> None:
    source = """#include <algorithm>
    #include <vector>
    struct S { int a; };
    extern "C" void f() {
      std::vector<S> v(3);
      std::sort(v.begin(), v.end());
    }"""
    with pytest.raises(CompileError, match="line 6: error: no match for"):
        cpp(source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('extern "C" void f();\nextern "C" void g() { f(); }', "undefined reference"),
        ('#include "nowhere.h"\n', "line 1: error: nowhere.h: No such file"),
        ("", 'extern "C" void name'),
        ("void f() {}", 'extern "C" void name'),
        ("int x = ;", "line 1"),
        ("\0", "refused|no function"),
    ],
)
def test_other_refusals_are_clear(source: str, said: str) -> None:
    with pytest.raises(CompileError, match=said):
        cpp(source)


def test_flags_are_heeded_and_come_last() -> None:
    source = 'extern "C" int f() { return N; }'
    assert cpp(source, flags=("-DN=4",)).f() == 4
    assert cpp(source, flags="-DN=5 -O1").f() == 5
    with pytest.raises(CompileError, match="no-such-flag"):
        cpp(source, flags=["-fno-such-flag"])


def test_defaults_keep_single_precision_exact() -> None:
    # Under -ffast-math the compensation is simplified away and the sum stays at 1.
    source = r"""extern "C" float sum(const float* x, int n) {
      float total = 0, lost = 0;
      for (int i = 0; i < n; ++i) { float y = x[i] - lost, t = total + y; lost = (t - total) - y; total = t; }
      return total; }"""
    x = torch.full((1_000_001,), 1e-8)
    x[0] = 1.0
    assert abs(cpp(source).sum(x, x.numel()) - 1.01) < 1e-6


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _compiler.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UnavailableError, match=r"no-such-compiler.*install g\+\+"):
        cpp('extern "C" void f() {}')
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    _compiler.cache_clear()
    with pytest.raises(UnavailableError, match=r"no C\+\+ compiler.*apt install g\+\+"):
        cpp('extern "C" void f() {}')
    _compiler.cache_clear()


def test_a_model_that_holds_a_library_can_be_copied() -> None:
    library = cpp('extern "C" int f(int n) { return n + 1; }')
    assert copy.deepcopy(library).f(1) == 2
    assert pickle.loads(pickle.dumps(library.f))(1) == 2
