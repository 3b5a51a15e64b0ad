"""What is known of a whole model with faster parts in it: in each form that it may run in (as it is, or inside of torch.compile), the parts that help
there, its speed, and how far its answers move. Plain data, and the report made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bottega.core.verdict import BEST, Speedup, interval_text
from bottega.judge.baselines import measured

EAGER = "eager"
MODES = {"compile": "default", "autotune": "max-autotune"}
"""Of torch.compile, by baseline. A whole model is called with the same tensors each time, and may have CUDA graphs, as its user would have it."""
LONGEST_SHAPES = 60
INTERVALS = "Intervals: 99 %, of calls that take turns in one process. What else the machine did then is not in them. Milliseconds: medians."


@dataclass(frozen=True)
class Part:
    """One kind of module that has a faster form."""

    label: str
    places: tuple[str, ...]
    folder: str
    """Where its delivered file is, in the run's folder."""
    entry: str = "load"
    ignore: tuple[str, ...] = ()
    """Attributes that may differ from the module's that it was made for."""
    shapes: str = ""
    """Of the calls that it was made for."""
    calls: int = 0
    """So many of them were seen."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Part:
        return cls(**{**data, "places": tuple(data["places"]), "ignore": tuple(data["ignore"])})


def placed(parts: Sequence[Part]) -> list[tuple[str, Part]]:
    """What is put where, in this order. What lies inside of another's place is there for the calls that the other leaves to the original. Of several
    in one place, each for its own shapes, the one with most calls is put around the others: it is the first to look at a call."""
    standing = [(place, part) for part in parts for place in part.places]
    return sorted(standing, key=lambda each: (-each[0].count("."), each[1].calls))


@dataclass(frozen=True)
class CallShare:
    """Calls of one kind of module with one kind of shapes, and what answers them."""

    label: str
    shapes: str
    calls: int
    share: float
    """Of the time of all calls, with what is called inside."""
    answered: str
    other_shapes: int = 0
    """That are answered in the same way."""

    def with_more(self, other: CallShare) -> CallShare:
        return replace(self, calls=self.calls + other.calls, share=self.share + other.share, other_shapes=self.other_shapes + 1)


@dataclass(frozen=True)
class PartResult:
    part: Part
    speedup: Speedup | None
    """What the whole model gains by it, beside the others that are in it."""
    kept: bool
    reason: str = ""


@dataclass(frozen=True)
class FormResult:
    """The whole model in one form, which has the name of the baseline that it is to beat."""

    form: str
    parts: tuple[PartResult, ...] = ()
    speedups: dict[str, Speedup] = field(default_factory=dict)
    """With the kept parts, by baseline."""
    plain: Speedup | None = None
    """Of the model with the parts that help it as it is, not compiled, over this baseline."""
    times_ms: dict[str, float] = field(default_factory=dict)
    error: float = 0.0
    """Relative distance of its answers to the original's."""
    own_error: float | None = None
    """The original's own distance to exact ones."""
    exact_error: float | None = None
    exact_in: str = ""
    memory_bytes: dict[str, int] = field(default_factory=dict)
    """Peak on the device; empty on a CPU."""
    recorded: bool = False
    """Its calls are CUDA graphs: the host launches one in place of all kernels."""
    recording: Speedup | None = None
    """What the whole model gains by that, with the kept parts in it."""
    not_recorded: str = ""
    """Why they are none."""
    missing: str = ""
    """Why it was not measured, or not to the end."""

    @property
    def kept(self) -> list[Part]:
        return [result.part for result in self.parts if result.kept]

    @property
    def helps(self) -> bool:
        return bool(self.kept or self.recorded)

    @property
    def mode(self) -> str | None:
        """Of torch.compile."""
        return mode_of(self.form, self.recorded)

    @property
    def text(self) -> str:
        return form_text(self.form) + (", calls recorded as CUDA graphs" if self.recorded else "")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FormResult:
        parts = [
            PartResult(Part.from_json(each["part"]), _speedup(each["speedup"]), each["kept"], each["reason"])
            for each in data["parts"]
        ]
        speedups = {name: Speedup(**each) for name, each in data["speedups"].items()}
        gains = {name: _speedup(data[name]) for name in ("plain", "recording")}
        return cls(**{**data, "parts": tuple(parts), "speedups": speedups, **gains})


@dataclass(frozen=True)
class WholeModel:
    forms: tuple[FormResult, ...]
    """The model as it is comes first."""
    baselines: tuple[str, ...]
    """As they were named; the first that could be measured is to be beaten."""
    shares: tuple[CallShare, ...] = field(default=(), compare=False)
    """The costliest calls, in what is handed over."""

    @property
    def measured(self) -> tuple[str, ...]:
        """The baselines that are to be timed, the model as it is first."""
        return measured((*self.baselines, EAGER))

    def against(self, baseline: str) -> dict[str, Speedup]:
        """The speedup over one baseline, by form."""
        found = {each.form: each.speedups[baseline] for each in self.forms if each.helps and baseline in each.speedups}
        held = {each.form: each.plain for each in self.forms if each.plain is not None}
        return found | ({EAGER: held[baseline]} if baseline in held else {})

    @property
    def rival(self) -> str:
        """The baseline that is to be beaten: the first that was named and could be measured."""
        faster = {
            each.form: each.times_ms[EAGER] / each.times_ms[each.form] for each in self.forms if each.form in each.times_ms
        }
        by_name = {
            EAGER: EAGER,
            **{form: form for form in faster},
            BEST: max(faster, key=lambda form: faster[form], default=EAGER),
        }
        return next((by_name[name] for name in self.baselines if name in by_name), EAGER)

    @property
    def best(self) -> FormResult | None:
        """The form that is handed over: the fastest of those that surely beat the rival."""
        sure = {form: speedup for form, speedup in self.against(self.rival).items() if speedup.low > 1}
        form = max(sure, key=lambda name: sure[name].low, default=None)
        return next((each for each in self.forms if each.form == form), None)

    @property
    def speedups(self) -> dict[str, Speedup]:
        """Of the best form over each baseline that it was held against."""
        form = self.best.form if self.best else EAGER
        return {name: found[form] for name in self.measured if form in (found := self.against(name))}

    def to_json(self) -> dict[str, Any]:
        best = self.best
        return {
            "form": best.form if best else None,
            "rival": self.rival,
            "speedups": {name: asdict(speedup) for name, speedup in self.speedups.items()},
            "against": {name: {form: asdict(each) for form, each in self.against(name).items()} for name in self.measured},
            "forms": [each.to_json() for each in self.forms],
            "shares": [asdict(each) for each in self.shares],
        }  # fmt: skip


def told(speedup: Speedup) -> str:
    return f"{speedup.point:.3f}× ({interval_text(speedup.low, speedup.high, 3)})"


def mode_of(form: str, recorded: bool) -> str | None:
    """Of torch.compile; where calls are recorded whole it makes no CUDA graphs of its own."""
    mode = MODES.get(form)
    return "max-autotune-no-cudagraphs" if recorded and mode == "max-autotune" else mode


def form_text(form: str) -> str:
    mode = MODES.get(form)
    return "as it is" if mode is None else f"inside of torch.compile, mode {mode}"


def report_of(whole: WholeModel, title: str, searched: Sequence[str], called: str = "") -> str:
    """How it came about, as Markdown; `called`: how, in a sentence."""
    best, names = whole.best, whole.measured
    lines = [f"# {title}, end to end", ""]
    if best is not None:
        slower = [f"It does not surely beat {name}." for name, found in whole.speedups.items() if found.low <= 1]
        what = "with its faster parts" if best.kept else "with no part exchanged"
        sure = f"Handed over: the model {what}, {best.text}. It surely beats {whole.rival}."
        lines += [" ".join([sure, *slower]), ""]
    elif whole.against(EAGER):
        lines += [f"Nothing surely beats {whole.rival}: the model is handed over as it was.", ""]
    elif any(each.parts for each in whole.forms):
        lines += ["No part that was found helps the whole model: it is handed over as it was.", ""]
    else:
        lines += ["No part of it was made surely faster: it is handed over as it was.", ""]
    if called:
        lines += [called, ""]
    lines += [
        f"| with faster parts | {' | '.join(f'over {name}' for name in names)} | ms |",
        f"|---|{'---|' * len(names)}---:|",
    ]
    for each in whole.forms:
        cells = [told(found[each.form]) if each.form in (found := whole.against(name)) else "" for name in names]
        ms = f"{each.times_ms['optimized']:.3f}" if each.helps and "optimized" in each.times_ms else ""
        lines.append(f"| {each.text} | {' | '.join(cells)} | {ms} |")
    lines += [f"| without: {name} | {' | '.join('' for _ in names)} | {ms} |" for name, ms in _rivals(whole).items()]
    lines += ["", INTERVALS, ""]
    for each in whole.forms:
        if each.missing:
            lines.append(f"{form_text(each.form).capitalize()}: {each.missing}.")
        if each.recording is not None:
            lines.append(f"What recording brings, {form_text(each.form)}: {told(each.recording)}.")
        if each.not_recorded:
            lines.append(f"Calls are not recorded as CUDA graphs, {form_text(each.form)}: {each.not_recorded}.")
    for each in whole.forms:
        if each.helps:
            off = (
                f"; to {each.exact_in} {each.exact_error:.2g}, the original's own {each.own_error:.2g}" if each.exact_in else ""
            )
            lines.append(f"Relative distance of the answers to the original's, {each.text}: {each.error:.2g}{off}.")
            lines += [f"Peak memory: {name} {size / 1e9:.3f} GB." for name, size in each.memory_bytes.items()]
    for each in whole.forms:
        if each.parts:
            lines += [
                "",
                f"| module, {form_text(each.form)} | called with | places | brings end to end | in the model |",
                "|---|---|---:|---|---|",
            ]
        for result in each.parts:
            speed, stays = told(result.speedup) if result.speedup else "", "yes" if result.kept else result.reason
            shapes = _cell(result.part.shapes)
            lines.append(f"| {result.part.label} | {shapes} | {len(result.part.places)} | {speed} | {stays} |")
    if whole.shares:
        lines += ["", "What answers which calls (share of the time, with what is called inside):", ""]
        lines += ["| module | called with | calls | share | answered by |", "|---|---|---:|---:|---|"]
        for row in whole.shares:
            shapes = _cell(row.shapes) + (f" and {row.other_shapes} more" if row.other_shapes else "")
            lines.append(f"| {row.label} | {shapes} | {row.calls} | {row.share:.0%} | {row.answered} |")
    return "\n".join([*lines, "", "What was searched:", "", *(f"- {line}" for line in searched)]) + "\n"


def _cell(text: str) -> str:
    """Shapes in a row of a table."""
    told = text.replace("|", "/")
    return told if len(told) <= LONGEST_SHAPES else f"{told[: LONGEST_SHAPES - 1]}…"


def _rivals(whole: WholeModel) -> dict[str, str]:
    return {each.form: f"{each.times_ms[each.form]:.3f}" for each in whole.forms if each.form in each.times_ms}


def _speedup(data: Any) -> Speedup | None:
    return None if data is None else Speedup(**data)
