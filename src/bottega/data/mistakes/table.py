"""The mistakes: a name, where it is made, what cures it, and the changes that make it, of which the first that finds something to change is made.

    name (languages): cure
        part: pattern => replacement

`part*` changes every place and not one of them. A replacement in braces is a function of `COMPUTED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

COMPUTED: dict[str, Callable[[re.Match[str]], str]] = {
    "one less": lambda m: f"/ {int(m[1]) - 1}{m[2] or ''}",
    "shorter": lambda m: f"0.{m[1][:1]}{m[2]}",
    "no power": lambda m: f"{m[1]}={int(m[2]) - 24}",
    "other program": lambda m: f"tl.program_id({(int(m[1]) + 1) % 2})",
    "other axis": lambda m: f"{m[1]}axis={1 - int(m[2])})",
}
WORDS = {
    "<NAME>": r"[A-Za-z_][\w.]*",
    "<COUNT>": r"(?:\(float\)\s*|float\(|static_cast<\w+>\(|\(double\)\s*|double\()?",
    "<SIZE>": r"(64|128|256|512|1024|2048|4096|8192)\b",
    "<MASK>": r", mask=[^,()\n]+(?:\([^()\n]*\)[^,()\n]*)?",
    "<IMPORT>": r"import torch(?:\.nn as nn|\.nn\.functional as F)?|import triton(?:\.language as tl)?|from torch import nn",
}
"""What stands for a longer piece of a pattern."""
KERNEL = r"""
wrong_neutral_value (everywhere): The running maximum starts from minus infinity, not from 0.
    code: -\s*INFINITY|-\s*FLT_MAX|-std::numeric_limits<float>::(?:infinity|max)\(\)|-?float\(["']-?inf["']\)|-1e30f?|-3\.4\w*38f? => 0.0
wrong_divisor (everywhere): The mean divides by the number of elements.
    code: (?<!/)/(?!/)\s*(<COUNT>)(<NAME>)(?=[\s;)+,*]|$) => / \1(\2 - 1)
    code: \*\s*(inv_\w+|inverse_\w+|reciprocal\w*) => * (2.0f * \1)
    code: /\s*(\d{2,})(\.\d*f?|\.f)?(?=[\s;)+,*]|$) => {one less}
dropped_epsilon (everywhere): Epsilon goes under the root, as in the original.
    code: \s*\+\s*(?:eps\w*|[\w.]*epsilon\w*|1e-\d+f?|\d\.\d+e-\d+f?)(?=[\s;)]) =>
wrong_index_order (everywhere): Rows and columns are indexed in the order in which they lie in memory.
    code: \b(<NAME>) \* (?!\1\b)(<NAME>) \+ (?!\1\b|\2\b)(<NAME>)\b(?!\s*[*(\[]) => \3 * \2 + \1
wrong_stride (everywhere): A row is as far from the next as it is long.
    code: \+ (\w*row\w*|\w*pid\w*|r|n|b) \* (\w+) => + \1 * (\2 - 1)
swapped_operands (everywhere): Subtraction and division take their operands in the original's order.
    code: \b(<NAME>(?:\[\w+\])?) ([-/]) (?!/)(<NAME>(?:\[\w+\])?)(?=[\s;),]|$) => \3 \2 \1
missing_bias (everywhere): The bias is added.
    code: \s*\+\s*(?:bias|shift|beta|b|bb|bias_\w+)(?:\[[^\]]*\])?(?=[\s;)]) =>
wrong_sign (everywhere): The sign of the exponent is the original's.
    code: (expf?|tl\.exp|__expf)\(-\s* => \1(
wrong_constant (everywhere): The constant is the original's.
    code: (?<![\w.])0\.(\d{2,})(f?)(?![\w.]) => {shorter}
loop_stops_short (in_strings): The loop runs to the last element.
    native: (for \([^;\n]*; *\w+ *< *)(\w+)( *;) => \1\2 - 1\3
missing_tail (in_strings_on_cpu): What is left after the last whole block is computed too.
    native: (for \([^;\n]*; *\w+ *< *)(\w+)( *; *(?:\+\+\w+|\w+\+\+)\)) => \1\2 / 32 * 32\3
uninitialised_sum (in_strings): The sum starts from 0.
    native: \b(float|double) (\w+) = 0(?:\.0?)?f?; => \1 \2;
race_in_reduction (in_strings_on_cpu): The sum over threads is declared as a reduction.
    native: ^([ \t]*)#pragma omp simd reduction\([^)]*\) => \1#pragma omp parallel for
    native: [ ]reduction\([^)]*\) =>
low_precision_sum (in_strings): Sums are kept in full precision.
    native*: \bdouble\b => float
    native: \b(\w+) \+= ([^;\n()]*(?:\([^;\n()]*\)[^;\n()]*)*); => \1 = (float)(_Float16)(\1 + (\2));
unknown_identifier (in_strings): Every name in the kernel is declared.
    native: (?<=[<*(\[ ])(rows|columns|cols|width|count|features|size|n|total|numel)(?=[ ;)\]])(?! *=) => \1_
missing_semicolon (in_strings): The statement ends with a semicolon.
    native: ;$ =>
missing_include (in_strings): The headers that are used are included.
    native*: ^#include <\w+>\n =>
wrong_pointer_type (in_strings): The kernel's pointers have the tensors' data type.
    native: const float ?\* ?(?:__restrict__ )?(\w+)(?=,) => const double* \1
missing_bounds_check (in_strings_on_gpu): Threads beyond the last element do nothing.
    native: ^[ \t]*if \(\w+ >= \w+\) return;\n =>
missing_sync (in_strings_on_gpu): Threads wait for each other before they read what the others wrote.
    native: ^[ \t]*__syncthreads\(\);\n =>
missing_mask (python_kernels): Loads and stores at the edge are masked.
    kernels: <MASK>, other=[^,()\n]+(?:\([^()\n]*\))?(?=\)) =>
    kernels: <MASK>(?=\)) =>
wrong_masked_value (python_kernels): Masked lanes hold the neutral value of what is done with them.
    kernels: other=-?float\(['"]-?inf['"]\) => other=0.0
    kernels: other=0(?:\.0)?(?=[,)]) => other=1.0
missing_constexpr (python_kernels): Block sizes are compile-time arguments.
    kernels: (\w+): ?tl\.constexpr => \1
block_no_power_of_two (python_kernels): A range has a power of two for its length.
    whole: (BLOCK\w*|block\w*|B[MNK]) ?= ?<SIZE> => {no power}
grid_too_small (python_kernels): The grid is rounded up, so that the last block is computed.
    module: triton\.cdiv\(([^(),]+), ([^(),]+)\) => (\1) // (\2)
    module: \[\((\w+),\)\] => [(\1 - 1,)]
wrong_program_axis (python_kernels): Each program reads its own axis of the grid.
    kernels: tl\.program_id\((?:axis=)?([012])\) => {other program}
low_precision (python_kernels): Products and sums are kept in full precision.
    whole: input_precision ?= ?['"](?:ieee|tf32x3)['"] => input_precision="tf32"
    kernels: tl\.float32 => tl.float16
    kernels: (= tl\.load\([^\n]*\))$ => \1.to(tl.float16)
wrong_reduction_axis (python_kernels): The reduction runs over the axis of the original.
    kernels: (tl\.(?:sum|max|min)\([^\n]*?)(?:axis ?= ?)?([01])\) => {other axis}
torch_call_in_kernel (python_kernels): Inside a kernel only Triton's own functions exist.
    kernels: tl\.(exp|sqrt|log|abs|maximum)\( => torch.\1(
"""
"""Within a kernel: they need the diagnosis to be found."""
MODULE = r"""
missing_import (everywhere): Everything that is used is imported.
    outside: ^(?:<IMPORT>|from bottega\.runtime import \w+)\n =>
unknown_name (everywhere): Every name in forward exists.
    forward: (?<=[\[(, ])([a-z]\w*)\.(shape|numel|size|stride|dtype|device|contiguous)\b => inputs.\2
syntax_error (everywhere): The file parses.
    outside: (def \w+\([^()\n]*\)(?: -> [^:\n]*)?):$ => \1
    forward: \)$ =>
parameter_not_registered (everywhere): Parameters are registered as in the original.
    module: (?:torch\.)?nn\.Parameter\(((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*)\) => \1
constructor_arguments (everywhere): The constructor takes the original's arguments.
    constructor: (def __init__\(self), ?[^,)]+ => \1
missing_contiguous (everywhere): Inputs are made contiguous before their memory is read.
    module*: \.contiguous\(\) =>
wrong_output_type (everywhere): The output has the original's data type.
    forward: torch\.empty_like\((\w+)\) => torch.empty_like(\1, dtype=torch.float64)
    forward: dtype=\w+\.dtype => dtype=torch.float16
    forward: torch\.empty\(([^()\n]*)\) => torch.empty(\1, dtype=torch.float64)
wrong_output_shape (everywhere): The output has the original's shape.
    forward: torch\.(empty|zeros)\((\([^()\n]*?)\) => torch.\1(\2, 1)
    forward: torch\.(empty|zeros)\((\w[\w.\[\]]*)(?=, ) => torch.\1(1, \2
    forward: ^(\s*)return (\w+)$ => \1return \2.unsqueeze(0)
writes_into_its_input (everywhere): The result goes into memory of its own.
    forward: = torch\.empty_like\((\w+)\) => = \1
swapped_arguments (everywhere): The kernel gets its arguments in the order in which it takes them.
    forward: (\w+\.shape\[0\]|\brows\b|\bm\b), (\w+\.shape\[-?1\]|\bcolumns\b|\bcols\b|\bwidth\b|\bn\b) => \2, \1
returns_nothing (everywhere): Forward returns what the original returns.
    forward: ^(\s*)return [^\n]+$ => \1pass
"""
"""Of the module around it."""
