"""The teacher that a command line names, in its classroom: the builder in processes of its own, a model in ours."""

from __future__ import annotations

from pathlib import Path

from bottega.app.asking import prompt_style
from bottega.backbone.choose import open_backbone
from bottega.core.errors import UsageError
from bottega.data.pool import Appointment, Classroom, Classrooms, OwnClassroom
from bottega.data.settings import JudgeStage
from bottega.data.stored_verdicts import KeepingJudge
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.device_facts import device_facts

BUILDER = "bottega.compiler.builder:Builder"
PARTS_BUILDER = "bottega.compiler.library_builder:PartsBuilder"
BUILDERS = {
    "builder": Appointment(BUILDER),
    "plain": Appointment(BUILDER, {"plain": True}),
    "parts": Appointment(PARTS_BUILDER),
}
TEACHERS = (*BUILDERS, "llm")
EPISODES = "episodes"


def builder_for(teacher: str, stage: JudgeStage) -> Classroom:
    """A teacher that needs no judge while it works."""
    return Classrooms(BUILDERS.get(teacher) or Appointment(teacher), stage.teachers, stage.teacher_timeout)


def family_of(teacher: str) -> str:
    """The program behind a teacher's name on the command line: the builder is one in either style."""
    return "builder" if teacher in BUILDERS else teacher


def classroom_for(teacher: str, backbone: str, stage: JudgeStage, judge: KeepingJudge, folder: Path) -> Classroom:
    """Also `module:Class`, a teacher of one's own that takes no arguments."""
    if teacher != "llm":
        return builder_for(teacher, stage)
    if not backbone:
        raise UsageError("the llm teacher needs --backbone SPEC: local:PATH, server:MODEL@URL, or embedded")
    from bottega.data.teachers.llm import LlmTeacher, Model

    settings = EpisodeSettings(
        device=stage.device,
        baselines=stage.baselines,
        precision=stage.precision,
        schemes=0,
        style=prompt_style(backbone),
        max_tokens=8192 if backbone.startswith("server:") else 2048,
    )
    model = Model(backbone, open_backbone(backbone), settings)
    made = LlmTeacher(model, judge, device_facts(stage.device), folder / EPISODES, failed=judge.store.add_slips)
    return OwnClassroom(made)
