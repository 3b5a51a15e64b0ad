"""Recurrent cells and layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.operator import Form, Operand, Operator, OperatorUse, roles
from bottega.tasks.synth.value import Shape, Table, Value, mixed

ALONE = roles("alone")
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def _sequence(draw: Draw) -> Shape:
    return (
        draw.named("batch_size", draw.batch),
        draw.size("seq_len", 8, 40 * draw.target.sizes**0.5),
        draw.size("input_size", 16, 160 * draw.target.sizes**0.5 * draw.shrink),
    )


def _row(draw: Draw) -> Shape:
    return (draw.named("batch_size", draw.batch), draw.size("input_size", 32, 512 * draw.target.sizes**0.5 * draw.shrink))


def _hidden(s: OperatorUse) -> int:
    return s.draw.size("hidden_size", 16, 160 * s.draw.target.sizes**0.5 * s.draw.shrink)


def _squashed(s: OperatorUse) -> Table:
    return np.tanh(mixed(s.table, s.shape[-1], s.draw.rng))


def _layer_work(gates: int) -> Any:
    def work(s: OperatorUse, out: Value) -> OperatorCost:
        batch, steps, width = s.shape
        hidden, layers = s.p["hidden_size"], s.p.get("num_layers", 1) * (2 if s.p.get("bidirectional") else 1)
        return OperatorCost(
            s.x.bytes + 4.0 * out.bytes,
            2.0 * gates * batch * steps * hidden * (width + hidden) * layers * 1.6,
            "matmul",
            steps * layers * 3,
        )

    return work


def _cell_work(gates: int) -> Any:
    def work(s: OperatorUse, out: Value) -> OperatorCost:
        return OperatorCost(
            3.0 * s.x.bytes + 6.0 * gates * out.bytes,
            2.0 * gates * s.shape[0] * s.p["hidden_size"] * (s.shape[1] + s.p["hidden_size"]),
            "matmul",
            4,
        )

    return work


def layer(
    kind: str, words: str, often: float, name: str = "", options: str = "", take: str = "all", **parameters: Any
) -> Operator:
    module = kind.upper()
    make = f"nn.{module}({{input_size}}, {{hidden_size}}{{, num_layers=1}}, batch_first=True{{, bidirectional=False}}{options})"
    calls = {
        "all": ("{=out}, _ = {@" + kind + "}({x})\n{=out}", "{@" + kind + "}({x})[0]"),
        "last": (
            "{=out}, _ = {@" + kind + "}({x})\n{=out}[:, -1]",
            "{=out}, {=state} = {@" + kind + "}({x})\n{=out}[:, -1, :]",
        ),
    }[take]
    twice = 2 if parameters.get("bidirectional") == (True,) else 1
    return Operator(
        name or kind,
        "recurrent",
        tuple(Form(call, ((kind, make),)) for call in calls),
        words,
        ("sequence",),
        {"input_size": lambda s: s.shape[-1], "hidden_size": _hidden, "num_layers": (1, 1, 2), **parameters},
        shape=(lambda s: (*s.shape[:2], s.p["hidden_size"] * twice))
        if take == "all"
        else (lambda s: (s.shape[0], s.p["hidden_size"])),
        layout="sequence" if take == "all" else "rows",
        law=lambda s: 0.5 * _squashed(s),
        work=_layer_work(GATES[kind]),
        first=_sequence,
        roles=ALONE,
        dtypes=("float32",),
        often=often,
        literal=frozenset({"bidirectional"}),
    )


def cell(kind: str, words: str, call: str, others: tuple[Operand, ...], often: float) -> Operator:
    module = {"rnn": "RNNCell", "gru": "GRUCell", "lstm": "LSTMCell"}[kind]
    return Operator(
        f"{kind}_cell",
        "recurrent",
        (Form(call, (("cell", f"nn.{module}({{input_size}}, {{hidden_size}})"),)),),
        words,
        ("rows",),
        {"input_size": lambda s: s.shape[-1], "hidden_size": lambda s: s.others[0].shape[-1]},
        others,
        shape=lambda s: s.others[0].shape,
        law=_squashed,
        work=_cell_work(GATES[kind]),
        first=_row,
        roles=ALONE,
        dtypes=("float32",),
        often=often,
    )


def _state(name: str) -> Operand:
    return Operand(
        name,
        lambda s: (
            s.shape[0],
            s.draw.size("hidden_size", 32, 512 * s.draw.target.sizes**0.5 * s.draw.shrink)
            if not s.others
            else s.others[0].shape[1],
        ),
    )


def _unrolled(s: OperatorUse, out: Value) -> OperatorCost:
    batch, steps, width = s.shape
    hidden = s.p["hidden_size"]
    return OperatorCost(8.0 * out.bytes, 2.0 * 3 * batch * steps * hidden * (width + hidden) * 1.5, "matmul", 12 * steps)


_SIZES = {"input_size": lambda s: s.shape[-1], "hidden_size": _hidden}

RECURRENT = (
    layer("rnn", "vanilla recurrent layer", 1.0),
    layer("gru", "GRU layer", 1.2),
    layer("lstm", "LSTM layer", 1.2),
    layer("gru", "bidirectional GRU", 0.6, "gru_bidirectional", bidirectional=(True,)),
    layer("lstm", "bidirectional LSTM", 0.6, "lstm_bidirectional", bidirectional=(True,)),
    layer("gru", "last state of a GRU", 0.6, "gru_last", take="last"),
    layer("lstm", "last state of an LSTM", 0.7, "lstm_last", take="last"),
    layer("rnn", "last state of a recurrent layer with ReLU", 0.4, "rnn_relu_last", ', nonlinearity="relu"', take="last"),
    cell("rnn", "one step of a recurrent cell", "{@cell}({x}, {y})", (_state("hidden"),), 0.8),
    cell("gru", "one step of a GRU cell", "{@cell}({x}, {y})", (_state("hidden"),), 0.8),
    cell(
        "lstm",
        "one step of an LSTM cell",
        "{=h}, {=c} = {@cell}({x}, ({y}, {z}))\n{=h} + {=c}",
        (_state("hidden"), _state("cell_state")),
        0.8,
    ),
    Operator(
        "minimal_gated_unit",
        "recurrent",
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
        "minimal gated unit",
        ("rows",),
        {"input_size": lambda s: s.shape[-1], "hidden_size": lambda s: s.others[0].shape[-1]},
        (_state("hidden"),),
        shape=lambda s: s.others[0].shape,
        law=_squashed,
        work=_cell_work(2),
        first=_row,
        roles=ALONE,
        dtypes=("float32",),
        often=0.7,
    ),
    Operator(
        "rnn_step_concat",
        "recurrent",
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
        "one step of a hand-written recurrent cell",
        ("rows",),
        {"input_size": lambda s: s.shape[-1], "hidden_size": lambda s: s.others[0].shape[-1]},
        (_state("hidden"),),
        shape=lambda s: s.others[0].shape,
        law=_squashed,
        work=_cell_work(1),
        first=_row,
        roles=ALONE,
        dtypes=("float32",),
    ),
    Operator(
        "rnn_unrolled",
        "recurrent",
        (
            Form(
                (
                    "{=h} = torch.zeros({x}.size(0), {hidden_size}, device={x}.device, dtype={x}.dtype)\n"
                    "for {=t} in range({x}.size(1)):\n"
                    "    {=h} = torch.tanh({@input}({x}[:, {=t}]) + {@hidden}({=h}))\n{=h}"
                ),
                (
                    ("input", "nn.Linear({input_size}, {hidden_size})"),
                    ("hidden", "nn.Linear({hidden_size}, {hidden_size}, bias=False)"),
                ),
            ),
            Form(
                (
                    "{=h} = {x}.new_zeros({x}.shape[0], {hidden_size})\n{=outputs} = []\n"
                    "for {=t} in range({x}.shape[1]):\n    {=h} = {@cell}({x}[:, {=t}], {=h})\n"
                    "    {=outputs}.append({=h})\ntorch.stack({=outputs}, dim=1).sum(dim=1)"
                ),
                (("cell", "nn.GRUCell({input_size}, {hidden_size})"),),
            ),
        ),
        "recurrent cell unrolled over time",
        ("sequence",),
        _SIZES,
        shape=lambda s: (s.shape[0], s.p["hidden_size"]),
        layout="rows",
        law=_squashed,
        work=_unrolled,
        first=_sequence,
        roles=ALONE,
        dtypes=("float32",),
        often=0.8,
    ),
    Operator(
        "gated_recurrence",
        "recurrent",
        (
            Form(
                (
                    "{=v} = {@value}({x})\n{=f} = torch.sigmoid({@forget}({x}))\n"
                    "{=h} = torch.zeros_like({=v}[:, 0])\n{=hs} = []\nfor {=t} in range({x}.size(1)):\n"
                    "    {=h} = {=f}[:, {=t}] * {=h} + (1 - {=f}[:, {=t}]) * {=v}[:, {=t}]\n    {=hs}.append({=h})\n"
                    "torch.stack({=hs}, dim=1)"
                ),
                (("value", "nn.Linear({input_size}, {hidden_size})"), ("forget", "nn.Linear({input_size}, {hidden_size})")),
            ),
        ),
        "simple recurrent unit",
        ("sequence",),
        _SIZES,
        shape=lambda s: (*s.shape[:2], s.p["hidden_size"]),
        layout="sequence",
        law=lambda s: 0.4 * mixed(s.table, s.shape[-1], s.draw.rng),
        work=_unrolled,
        first=_sequence,
        roles=ALONE,
        dtypes=("float32",),
        often=0.7,
    ),
)
