"""Recurrent cells and layers."""

from __future__ import annotations

from typing import Any

from bottega.tasks.synth.operator import Form, Operand, Operator, OperatorUse, first, operand, roles


def _hidden(s: OperatorUse) -> int:
    return s.draw.size("hidden_size", 16, 160 * s.draw.target.sizes**0.5 * s.draw.shrink)


def recurrent(
    name: str, made: tuple[Form, ...], parameters: dict[str, Any] | None = None, others: tuple[Operand, ...] = (), **more: Any
) -> Operator:
    """With other inputs it is one step over rows, without it goes along a sequence."""
    layouts, lengths, hidden = (
        (("rows",), "batch_size@1 input_size:32-512", lambda s: s.others[0].shape[-1])
        if others
        else (("sequence",), "batch_size@1 seq_len:8-40 input_size:16-160", _hidden)
    )
    sizes = {"input_size": lambda s: s.shape[-1], "hidden_size": hidden, **(parameters or {})}
    alone: dict[str, Any] = {"roles": roles("alone"), "dtypes": ("float32",)}
    return Operator(name, "recurrent", made, layouts, sizes, others, first=first(lengths), **alone, **more)


def layer(kind: str, name: str = "", options: str = "", take: str = "all", **parameters: Any) -> Operator:
    sizes = "{input_size}, {hidden_size}{, num_layers=1}, batch_first=True{, bidirectional=False}"
    call = f"{{@{kind}}}({{x}})"
    calls = {
        "all": (f"{{=out}}, _ = {call}\n{{=out}}", f"{call}[0]"),
        "last": (f"{{=out}}, _ = {call}\n{{=out}}[:, -1]", f"{{=out}}, {{=state}} = {call}\n{{=out}}[:, -1, :]"),
    }[take]
    made = tuple(Form(text, ((kind, f"nn.{kind.upper()}({sizes}{options})"),)) for text in calls)
    return recurrent(name or kind, made, {"num_layers": (1, 1, 2), **parameters}, literal=frozenset({"bidirectional"}))


def cell(kind: str, call: str, others: tuple[Operand, ...]) -> Operator:
    made = Form(call, (("cell", f"nn.{kind.upper()}Cell({{input_size}}, {{hidden_size}})"),))
    return recurrent(f"{kind}_cell", (made,), others=others)


def _state(name: str) -> Operand:
    return operand(name, "batch_size hidden_size:32-512")


RECURRENT = (
    layer("rnn"),
    layer("gru"),
    layer("lstm"),
    layer("gru", "gru_bidirectional", bidirectional=(True,)),
    layer("lstm", "lstm_bidirectional", bidirectional=(True,)),
    layer("gru", "gru_last", take="last"),
    layer("lstm", "lstm_last", take="last"),
    layer("rnn", "rnn_relu_last", ', nonlinearity="relu"', take="last"),
    cell("rnn", "{@cell}({x}, {y})", (_state("hidden"),)),
    cell("gru", "{@cell}({x}, {y})", (_state("hidden"),)),
    cell("lstm", "{=h}, {=c} = {@cell}({x}, ({y}, {z}))\n{=h} + {=c}", (_state("hidden"), _state("cell_state"))),
    recurrent(
        "minimal_gated_unit",
        (
            Form(
                (
                    "{=joined} = torch.cat([{x}, {y}], dim=1)\n{=f} = torch.sigmoid({@forget}({=joined}))\n"
                    "{=candidate} = torch.tanh({@update}(torch.cat([{x}, {=f} * {y}], dim=1)))\n"
                    "(1 - {=f}) * {y} + {=f} * {=candidate}"
                ),
                (
                    ("forget", "nn.Linear({input_size} + {hidden_size}, {hidden_size})"),
                    ("update", "nn.Linear({input_size} + {hidden_size}, {hidden_size})"),
                ),
            ),
        ),
        others=(_state("hidden"),),
    ),
    recurrent(
        "rnn_step_concat",
        (
            Form(
                "torch.tanh({@i2h}(torch.cat(({x}, {y}), dim=1)))",
                (("i2h", "nn.Linear({input_size} + {hidden_size}, {hidden_size})"),),
            ),
            Form(
                "torch.tanh({@input}({x}) + {@recurrent}({y}))",
                (
                    ("input", "nn.Linear({input_size}, {hidden_size})"),
                    ("recurrent", "nn.Linear({hidden_size}, {hidden_size}, bias=False)"),
                ),
            ),
        ),
        others=(_state("hidden"),),
    ),
    recurrent(
        "rnn_unrolled",
        (
            Form(
                (
                    "{=h} = torch.zeros({x}.size(0), {hidden_size}, device={x}.device, dtype={x}.dtype)\n"
                    "for {=t} in range({x}.size(1)):\n    {=h} = torch.tanh({@input}({x}[:, {=t}]) + {@hidden}({=h}))\n{=h}"
                ),
                (
                    ("input", "nn.Linear({input_size}, {hidden_size})"),
                    ("hidden", "nn.Linear({hidden_size}, {hidden_size}, bias=False)"),
                ),
            ),
            Form(
                (
                    "{=h} = {x}.new_zeros({x}.shape[0], {hidden_size})\n{=outputs} = []\nfor {=t} in range({x}.shape[1]):\n"
                    "    {=h} = {@cell}({x}[:, {=t}], {=h})\n    {=outputs}.append({=h})\n"
                    "torch.stack({=outputs}, dim=1).sum(dim=1)"
                ),
                (("cell", "nn.GRUCell({input_size}, {hidden_size})"),),
            ),
        ),
    ),
    recurrent(
        "gated_recurrence",
        (
            Form(
                (
                    "{=v} = {@value}({x})\n{=f} = torch.sigmoid({@forget}({x}))\n{=h} = torch.zeros_like({=v}[:, 0])\n"
                    "{=hs} = []\nfor {=t} in range({x}.size(1)):\n"
                    "    {=h} = {=f}[:, {=t}] * {=h} + (1 - {=f}[:, {=t}]) * {=v}[:, {=t}]\n    {=hs}.append({=h})\n"
                    "torch.stack({=hs}, dim=1)"
                ),
                (("value", "nn.Linear({input_size}, {hidden_size})"), ("forget", "nn.Linear({input_size}, {hidden_size})")),
            ),
        ),
    ),
)
