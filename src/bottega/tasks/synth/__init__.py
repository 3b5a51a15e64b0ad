"""Synthesised tasks: operators sampled from a catalogue, composed into a module, and written in varied styles.

    from bottega.tasks.synth import synthesise

    made = synthesise(seed=7, index=123, device="cuda")  # the same task for ever
    made = synthesise(7, 123, "cpu", levels=(2,), families=("convolutions",))
    made.task          # a `Task`: source in KernelBench's format, name, level, tags
    made.operators     # ("conv2d", "relu", "scale"): names of the catalogue, sorted, each as often as it occurs
    made.structure     # "single", "chain", "residual", "gate", "branches", "concatenation", "inputs", "formula" or "network"
    made.family        # the family of the operator that carries most of the work: "convolutions"
    made.families      # all of them, sorted
    made.level         # 1 single operators, 2 a few in a row, 3 small networks
    made.dtype         # "float32", "float16" or "bfloat16"
    made.estimate_ms   # what the cost model says of one eager call; not a measurement
    made.key           # two samples with a key in common are near duplicates

Nothing here runs a task at its size: operators are run on torch's meta device, and a few samples for real. `synthesise` raises `UsageError` for a
device, level or family that does not exist.
Whether a sample is fit to be judged is found by running it: `run(plan, folder, examiner)` does that for many, with the judge behind the `Examiner`
protocol. `CATALOGUE` maps an operator's name to its entry; `FAMILIES` are the families' names.
"""

from bottega.tasks.synth.catalogue import CATALOGUE, FAMILIES
from bottega.tasks.synth.plan import Series, SynthPlan, parse_shard
from bottega.tasks.synth.run import Examiner, ExaminerReport, run
from bottega.tasks.synth.sample import LEVELS, Synthesised, synthesise
from bottega.tasks.synth.similarity import Benchmark, similarity
from bottega.tasks.synth.summary import SynthSummary, SynthTally

__all__ = [
    "CATALOGUE",
    "FAMILIES",
    "LEVELS",
    "Benchmark",
    "Examiner",
    "ExaminerReport",
    "Series",
    "SynthPlan",
    "SynthSummary",
    "SynthTally",
    "Synthesised",
    "parse_shard",
    "run",
    "similarity",
    "synthesise",
]
