"""Long rows in pieces: one kernel leaves the state of each piece of each row, a second puts them together and stores what is asked for."""

from __future__ import annotations

from bottega.compiler.backends.triton.accumulate import Accumulator, Any, Moments
from bottega.compiler.backends.triton.row_index import ROW
from bottega.compiler.backends.triton.row_kernel import RowKernel


class SplitRows(RowKernel):
    """Rows that several programs share."""

    def partial(self) -> None:
        """Two kernels: states of each piece of each row, then the pieces together and what is stored."""
        file, layout = self.file, self.layout
        ((sweep, stored),) = self.sweeps
        self.begin()
        self.writer.constexpr("SPLITS", str(layout.splits))
        self.sweep(sweep, stored)
        for accumulator in sweep:
            accumulator.end(self.scope)
        states = [state for accumulator in sweep for state in accumulator.states]
        rows = self.space.total(ROW)
        at = f"tl.program_id(1) * {rows} + {self.row}"
        like = next((name for name in file.known if file.plan.buffers[name].kind == "input"), file.known[0])
        buffers: list[str] = []
        texts: list[str] = []
        for accumulator in sweep:
            for state in accumulator.states:
                integer = isinstance(accumulator, Accumulator) and (
                    accumulator.kind == "int"
                    or (accumulator.reduction.operation.startswith("arg") and state != accumulator.states[0])
                )
                dtype = "int64" if integer else self.dtype
                buffer = file.variable(f"{state}_parts")
                buffers.append(buffer)
                pointer = self.writer.parameter(f"pointer {buffer}", f"{buffer}_ptr", buffer, "result")
                mask = self.row_masks(frozenset())
                self.writer.line(f"tl.store({pointer} + {at}, {state}{f', mask={mask}' if mask else ''})")
                texts.append(f"{buffer} = torch.empty(({layout.splits}, {{rows}}), device={like}.device, dtype=torch.{dtype})")
        count = self.rows_text()
        file.forward += [text.format(rows=count) for text in texts]
        self.launch(str(layout.splits))
        second = SplitRows(file, self.kernel, layout, "_final")
        second.together(sweep, states, buffers)

    def together(self, sweep: list[Any], states: list[str], buffers: list[str]) -> None:
        writer, layout = self.writer, self.layout
        self.begin()
        splits = writer.constexpr("SPLITS", str(layout.splits))
        part, rows = writer.fresh("part"), self.space.total(ROW)
        writer.line(f"{part} = tl.arange(0, {splits}){'[:, None]' if layout.tile else ''}")
        mask = self.row_masks(frozenset())
        for state, buffer in zip(states, buffers):
            pointer = writer.parameter(f"pointer {buffer}", f"{buffer}_ptr", buffer, "pointer")
            name = writer.fresh(state)
            writer.line(
                f"{name} = tl.load({pointer} + {part} * {rows} + {self.row}{f', mask={mask}, other=0.0' if mask else ''})"
            )
        for accumulator in sweep:
            if isinstance(accumulator, Moments):
                accumulator.shift = self.centre(accumulator.sum.body)
        self.settle(sweep)
        self.outputs(f"tl.program_id(1) * {self.width}")
        self.launch(str(layout.splits) if self.left else "")
