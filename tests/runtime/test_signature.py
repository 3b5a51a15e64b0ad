"""The parser reads what kernel writers write, and says nothing about what it cannot know."""

import pytest

from bottega.runtime.signature import read_signatures


def parameters(source: str, name: str = "f") -> list[str]:
    signature = read_signatures(source)[name]
    assert signature is not None
    return [str(parameter) for parameter in signature.parameters]


@pytest.mark.parametrize(
    ("declared", "read"),
    [
        ("const float* x", "float* x"),
        ("float const * const __restrict__ x", "float* x"),
        ("const float *__restrict x", "float* x"),
        ("float x[]", "float* x"),
        ("const int shape[4]", "int* shape"),
        ("float** rows", "float** rows"),
        ("float& out", "float* out"),
        ("int n", "int n"),
        ("int", "int"),
        ("unsigned", "unsigned"),
        ("long unsigned int n", "unsigned long n"),
        ("long long int n", "long long n"),
        ("signed char c", "signed char c"),
        ("unsigned short int s", "unsigned short s"),
        ("std::int64_t n", "int64_t n"),
        ("::size_t n = 3 * (2 + 1)", "size_t n"),
        ("[[maybe_unused]] bool flag", "bool flag"),
        ("const __half2* __restrict__ x", "__half2* x"),
        ("std::complex<float>* z", "complex < float >* z"),
        ("const struct Shape* s", "Shape* s"),
    ],
)
def test_one_parameter(declared: str, read: str) -> None:
    assert parameters(f'extern "C" void f({declared}) {{ }}') == [read]


def test_commas_inside_brackets_do_not_split() -> None:
    assert parameters('extern "C" void f(Pair<int, float>* a, int b = g(1, 2), float c) {}') == [
        "Pair < int , float >* a",
        "int b",
        "float c",
    ]


def test_no_parameters() -> None:
    assert parameters('extern "C" int f(void) { return 1; }') == []
    assert parameters('extern "C" int f() { return 1; }') == []


def test_blocks_namespaces_and_neighbours() -> None:
    source = r"""
    // extern "C" void commented(int a) {}
    /* extern "C" void hidden(int a) {} */
    #include <cmath>
    #define MAKE(name) extern "C" \
        void name(int a) {}
    const char* text = "extern \"C\" void quoted(int a) {";
    const char* raw = R"x( extern "C" void raw_text(int a) { )x";
    int table[] = {1, 2, 3};
    struct Shape { int n; int size() const { return n; } };
    template <typename T> void plate(T* x) { x[0] = T{}; }
    static inline float mine(float x) { auto g = [&](float y) { return y; }; return g(x); }
    extern "C" {
      void first(float* x, int n) { if (n) { x[0] = '}'; } }
      static int second(int n) noexcept { return n; }
      int declared_only(double d);
    }
    namespace inner { extern "C" double third(double x) { return x; } void mangled(int n) {} }
    extern "C" __attribute__((noinline)) int64_t fourth(int64_t n) { return 1'000 + n; }
    void last(int n) {}
    """
    found = read_signatures(source)
    assert list(found) == ["first", "second", "declared_only", "third", "fourth"]
    fourth = found["fourth"]
    assert fourth is not None and str(fourth.returns) == "int64_t"


def test_kernels_are_marked() -> None:
    source = """
    extern "C" __global__ void __launch_bounds__(256, 2) a(float* x, int n) {}
    extern "C" __launch_bounds__(N * (1 + 1)) __global__ void b(const float4* __restrict__ x) {}
    extern "C" __device__ float c(float x) { return x; }
    __global__ void mangled(float* x) {}
    extern "C" { __global__ void __cluster_dims__(2, 1, 1) d(double* x) {} }
    """
    found = read_signatures(source)
    assert {name: found[name].kernel for name in found} == {"a": True, "b": True, "c": False, "d": True}  # type: ignore[union-attr]
    assert parameters(source, "b") == ["float4* x"]


def test_aliases_are_followed() -> None:
    source = """
    #define scalar float   // the element
    using index = std::int64_t;
    typedef unsigned long long big;
    typedef struct { int a; } Thing;
    using loop = loop;
    extern "C" void f(const scalar* x, index n, big b, Thing* t, loop* l) {}
    """
    assert parameters(source) == ["float* x", "int64_t n", "unsigned long long b", "Thing* t", "loop* l"]


def test_contradicting_declarations_give_no_signature() -> None:
    assert read_signatures('extern "C" void f(int a) {}\nextern "C" void f(float a) {}') == {"f": None}
    assert parameters('extern "C" void f(int a);\nextern "C" void f(int b) {}') == ["int a"]


@pytest.mark.parametrize(
    "source", ["", "}", "{", 'extern "C"', 'extern "C" void f(', "((((", '"', "/*", "#", 'extern "C" {', ")", "= ( ;"]
)
def test_broken_text_does_not_break_the_parser(source: str) -> None:
    read_signatures(source)
