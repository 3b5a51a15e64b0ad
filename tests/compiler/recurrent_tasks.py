"""Modules that are a recurrent layer and next to nothing else."""

from __future__ import annotations

from modules_in_cpp import module

RECURRENT = {
    "lstm": module("self.r(x)", "torch.randn(5, 3, 6)", init="self.r = nn.LSTM(6, 9)"),
    "both ways, batch first": module(
        "self.r(x)", "torch.randn(7, 4, 6)", init="self.r = nn.LSTM(6, 10, num_layers=2, bidirectional=True, batch_first=True)"
    ),
    "states given, no bias": module(
        "self.r(x, (h, c))",
        "torch.randn(4, 1, 5), torch.randn(2, 1, 8), torch.randn(2, 1, 8)",
        "x, h, c",
        "self.r = nn.LSTM(5, 8, num_layers=2, bias=False)",
    ),
    "gru, states given": module(
        "self.r(x, h)", "torch.randn(5, 6, 7), torch.randn(4, 6, 13)", "x, h", "self.r = nn.GRU(7, 13, 2, bidirectional=True)"
    ),
    "one sequence": module("self.r(x)", "torch.randn(6, 5)", init="self.r = nn.GRU(5, 16)"),
    "plain": module("self.r(x)", "torch.randn(4, 3, 5)", init="self.r = nn.RNN(5, 9, 2, nonlinearity='relu')"),
    "last step, then a layer": module(
        "self.f(self.r(x)[0][:, -1])",
        "torch.randn(40, 3, 5)",
        init="self.r = nn.RNN(5, 24, batch_first=True); self.f = nn.Linear(24, 4)",
    ),
    "threads share the units": module("self.r(x)", "torch.randn(3, 5, 6)", init="self.r = nn.GRU(6, 130)"),
    "threads share the rows": module("self.r(x)", "torch.randn(3, 70, 6)", init="self.r = nn.LSTM(6, 33)"),
    "written to itself": module(
        "self.r(x, (h, c))[1]",
        "torch.randn(5, 4, 6)",
        init="self.r = nn.LSTM(6, 18, 2, batch_first=True); self.h0, self.c0 = (torch.linspace(-1, i, 180).view(2, 5, 18) for i in (1, 2))",
        before="self.h0 = h = self.h0.to(x); self.c0 = c = self.c0.to(x)",
    ),
    "written to itself, both ways": module(
        "self.r(x, self.h0)[0]",
        "torch.randn(4, 3, 6)",
        init="self.r = nn.GRU(6, 17, 1, bidirectional=True); self.h0 = torch.linspace(-1, 1, 102).view(2, 3, 17)",
        before="self.h0 = self.h0.to(x)",
    ),
}
