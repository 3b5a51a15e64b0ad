"""Two kernels in one launch: programs of the first come first, and each kernel's lines stay a function of its own.

    if program < first:
        t8_part(program, q_ptr, …)
    else:
        t14_part(program - first, k_ptr, …)

The second does not wait until the last programs of the first have ended. Both rotary embeddings of an attention took 47.7 µs apart
and 44.5 so (H200).
"""

from __future__ import annotations

from bottega.compiler.backends.triton.kernel_writer import ROLES, FileWriter, HeldLaunch, KernelParameter
from bottega.compiler.bodies import made, read
from bottega.compiler.kernel import Kernel, Map, RowProgram

SIDE_BY_SIDE = "side_by_side"
PROGRAM = "tl.program_id(0)"


def go_together(first: Kernel, second: Kernel) -> bool:
    """Whether two kernels walk lines of the same length, and neither needs what the other makes."""
    if isinstance(first, Map) and isinstance(second, Map):
        alike = first.shape[-1:] == second.shape[-1:]
    else:
        alike = isinstance(first, RowProgram) and isinstance(second, RowProgram) and first.reduced == second.reduced
    return alike and not (set(made(first)) & read(second) or set(made(second)) & read(first))


def write_together(file: FileWriter, held: list[HeldLaunch]) -> None:
    """One launch where both have as many warps and programs along one axis alone, else one after the other."""
    one_axis = all(each.grid.endswith(",)") and "tl.program_id(1)" not in "".join(each.writer.lines) for each in held)
    if len(held) != 2 or held[0].options != held[1].options or not one_axis:
        for each in held:
            each.writer.finish(each.grid, each.options)
        return
    for each in held:
        _as_function(file, each)
    joint = file.kernel_writer(())
    counts = [each.grid.removeprefix("(").removesuffix(",)") for each in held]
    arguments = [
        ", ".join(joint.parameter(f"{p.role} {p.text}", p.name, p.text, p.role) for p in _ordered(each)) for each in held
    ]
    first = file.variable("first")
    file.forward.append(f"{first} = {counts[0]}")
    border = joint.parameter("first", "first", first, "size")
    program = joint.fresh("program")
    joint.line(f"{program} = {PROGRAM}")
    for head, each, place, given in zip(
        (f"if {program} < {border}:", "else:"), held, (program, f"{program} - {border}"), arguments
    ):
        with joint.block(head):
            joint.line(f"{each.writer.name}({place}, {given})")
    joint.finish(f"({first} + {counts[1]},)", held[0].options)


def _ordered(held: HeldLaunch) -> list[KernelParameter]:
    return sorted(held.writer.parameters.values(), key=lambda parameter: ROLES.index(parameter.role))


def _as_function(file: FileWriter, held: HeldLaunch) -> None:
    """Adds the kernel's lines to the file as a function that is told which program it is."""
    writer = held.writer
    file.used.remove(writer.name)
    writer.name = f"{writer.name.removesuffix('_kernel')}_part"
    program = writer.fresh("program")
    writer.lines = [line.replace(PROGRAM, program) for line in writer.lines]
    file.functions.append(writer.render(program))
