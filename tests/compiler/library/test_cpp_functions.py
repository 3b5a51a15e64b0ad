"""C++ functions that a kernel calls and does not define come into its string, and compile."""

from __future__ import annotations

import re

import pytest
import torch
from executed import executed

from bottega.compiler.library.cpp.source import cpp_parts, with_functions, without_functions
from bottega.compiler.link import linked
from bottega.compiler.step_compiler import StepCompiler
from bottega.compiler.strip import stripped
from bottega.runtime import cpp
from bottega.tasks.builtin import builtin_files, load_builtin

TASK = (
    "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return torch.tanh(x)\n"
)
KERNEL = """
#include <cstdint>

extern "C" void softmax(const float* x, float* y, int64_t count) {
  const float top = largest_of(count, [&](int64_t i) { return x[i]; });
  for (int64_t i = 0; i < count; ++i) y[i] = exp_simd(x[i] - top);
  const float total = sum_of(count, [&](int64_t i) { return y[i]; });
  for (int64_t i = 0; i < count; ++i) y[i] = maximum(y[i] / total, 0.f);
}
"""
ANSWER = (
    f'import torch\n\nfrom bottega.runtime import cpp\n\n\nlibrary = cpp(r"""{KERNEL}""")\n\n\nclass ModelNew(Model):\n'
    "    def forward(self, x):\n        y = torch.empty_like(x)\n        library.softmax(x, y, x.numel())\n        return y\n"
)


def test_a_kernel_gets_its_functions_and_computes() -> None:
    whole = linked(ANSWER, TASK)
    x = torch.randn(500)
    torch.testing.assert_close(executed(whole).ModelNew()(x), torch.softmax(x, 0))
    assert linked(whole, TASK) == whole
    assert stripped(whole, TASK) == ANSWER and stripped(ANSWER, TASK) == ANSWER


def test_a_source_that_has_a_name_or_is_several_strings() -> None:
    named = ANSWER.replace("library = cpp(", "SOURCE = (").replace('""")\n', '""")\nlibrary = cpp(SOURCE)\n', 1)
    x = torch.randn(40)
    torch.testing.assert_close(executed(linked(named, TASK)).ModelNew()(x), torch.softmax(x, 0))
    for odd in (
        named + "SOURCE = 3\n",
        ANSWER.replace('cpp(r"""', 'cpp("//" r"""'),
        ANSWER.replace('cpp(r"""', 'cpp(f"""').replace("{", "{{").replace("}", "}}"),
        ANSWER.replace('cpp(r"""', 'print(r"""'),
        ANSWER.replace('cpp(r"""', 'cpp("""').replace("0.f);", "0.f);\\n"),
    ):
        assert "static inline" not in linked(odd, TASK)


def test_every_part_compiles_alone_with_what_it_needs() -> None:
    calls = {name: function for name, function in cpp_parts().items() if function.called}
    hidden = "; ".join(f"{name}(1)" for name in calls)
    whole = with_functions(f'extern "C" int64_t same(int64_t x) {{ return x; }}\n#if 0\n{hidden}\n#endif\n')
    assert all(function.text in whole for function in calls.values()) and cpp_parts()["vec"].text in whole
    assert cpp(whole).same(3) == 3


def test_a_vector_fits_a_register() -> None:
    source = with_functions('extern "C" int64_t wide() { return sizeof(load(nullptr)) <= __BIGGEST_ALIGNMENT__; }\n')
    assert cpp(source).wide() == 1


ERRORS = {"exp": 1e-7, "expm1": 2e-7, "tanh": 3e-7, "sigmoid": 2e-7, "erf": 4e-7, "sin": 4e-7, "cos": 4e-7, "log": 3e-7}
"""Of fp32, against fp64, over the values below; relative where the value is larger than one."""


@pytest.mark.parametrize("name", ERRORS)
def test_functions_that_vectorise_are_right_to_the_last_bits_and_never_divide_by_a_number(name: str) -> None:
    text = cpp_parts()[f"{name}_simd"].text
    assert not re.search(r"[a-z)] / \d", text)
    loop = f"for (int64_t i = 0; i < count; ++i) y[i] = {name}_simd(x[i]);"
    library = cpp(
        with_functions(f'#include <cstdint>\nextern "C" void f(const float* x, float* y, int64_t count) {{ {loop} }}')
    )
    x = torch.linspace(-12, 12, 40_001)
    x = x.abs() + 0.01 if name == "log" else x
    y = torch.empty_like(x)
    library.f(x, y, x.numel())
    exact = getattr(torch, name)(x.double())
    assert ((y - exact).abs() / exact.abs().clamp(min=1)).max() <= ERRORS[name]
    odd = torch.tensor([float("nan"), float("inf"), -float("inf")])
    ends = torch.empty_like(odd)
    library.f(odd, ends, 3)
    torch.testing.assert_close(ends, getattr(torch, name)(odd), equal_nan=True)


def test_the_logarithm_of_a_softplus_is_right_to_the_last_bits_also_where_it_is_tiny() -> None:
    loop = "for (int64_t i = 0; i < count; ++i) y[i] = log1p_below_one_simd(x[i]);"
    library = cpp(
        with_functions(f'#include <cstdint>\nextern "C" void f(const float* x, float* y, int64_t count) {{ {loop} }}')
    )
    x = torch.cat([torch.linspace(0, 1, 40_001), torch.logspace(-30, 0, 1000), torch.tensor([float("nan")])])
    y = torch.empty_like(x)
    library.f(x, y, x.numel())
    torch.testing.assert_close(y.double(), torch.log1p(x.double()), rtol=3e-7, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "text",
    [
        "float relu(float v) { return v; }\nfloat f(float x) { return relu(x); }",
        "template <class T> T relu(T v);\nfloat f(float x) { return relu(x); }",
        "#define relu(v) (v)\nfloat f(float x) { return relu(x); }",
        "float f(float x) { auto relu = [](float v) { return v; }; return relu(x); }",
        "float* load(const float* p);\nfloat f(float* x) { return *load(x); }",
        "struct A { float relu; };\nfloat f(A a) { return a.relu(1); }",
        '// relu(x) exp_simd(x)\n/* relu(x) */ const char* t = "relu(x)";',
        "int relu;",
        'auto t = R"(relu(x))"; float y = relu(x);',
        "float f(float x) { return mine::relu(x) + x.relu(x); }",
    ],
)
def test_what_is_defined_or_not_called_is_left_alone(text: str) -> None:
    assert with_functions(text) == text


def test_functions_that_differ_stay() -> None:
    whole = with_functions(KERNEL)
    assert without_functions(whole) == KERNEL
    other = whole.replace("x > 88.37f ? INFINITY : e", "e")
    short = without_functions(other)
    assert other != whole and "exp_simd(float x) {" in short and "sum_of(int64_t" not in short
    both = whole + "static inline double maximum(double a, double b) { return a; }\n"
    assert "float maximum" in without_functions(both), "an overload would not come back"


def test_hostile_texts_are_read_once() -> None:
    for text in ("/*" * 50_000, '"\\"' * 30_000, "'" * 90_001, "relu(" * 20_000, "*" * 90_000):
        assert without_functions(with_functions(text)).count("relu(") in (0, 20_000)


@pytest.mark.parametrize("name", ["rms_norm_rows"])
def test_the_builders_kernels_come_back_with_the_same_functions(name: str) -> None:
    task = load_builtin(builtin_files(name)[0], "cpu")
    shorter = 0
    for step in StepCompiler().build(task, "cpp").steps:
        source = step.candidate.source
        short = stripped(source, task.source)
        whole = linked(short, task.source)
        marks = ("static inline", "#include", "#pragma")
        found = [[line for line in text.splitlines() if any(mark in line for mark in marks)] for text in (source, whole)]
        assert sorted(found[0]) == sorted(found[1])
        assert stripped(whole, task.source) == short
        shorter += short.count("static inline") < whole.count("static inline")
    assert shorter


@pytest.mark.parametrize(
    "text", ["enum { WIDE, HIGH };\nint f() { return WIDE; }", "std::array<float, 8> load(const float* p) { return {}; }"]
)
def test_what_a_source_defines_in_its_own_way_is_not_added(text: str) -> None:
    assert with_functions(text) == text
