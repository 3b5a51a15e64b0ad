"""The teacher pool for a teacher that the command line names: the compiler in worker processes, a model in this one."""

from __future__ import annotations

from pathlib import Path

from bottega.backbone.choose import open_backbone
from bottega.data.settings import JudgeStage
from bottega.data.stored_verdicts import StoringJudge
from bottega.data.teacher_pool import InProcessTeacherPool, SandboxTeacherPool, TeacherPool, TeacherSpec
from bottega.episodes.backbone_defaults import prompt_style
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.device_host import LOCAL, DeviceHost

COMPILERS = {"compiler": TeacherSpec("compiler"), "parts": TeacherSpec("parts")}
EPISODES = "episodes"


def compiler_pool_for(teacher: str, stage: JudgeStage) -> TeacherPool:
    """A teacher that needs no judge while it works."""
    return SandboxTeacherPool(COMPILERS.get(teacher) or TeacherSpec(teacher), stage.teachers, stage.teacher_timeout)


def family_of(teacher: str) -> str:
    """Returns the program behind a teacher's name: the compiler is one, whether it writes all steps or the last."""
    return "compiler" if teacher in COMPILERS else teacher


def teacher_pool_for(
    teacher: str, backbone: str, stage: JudgeStage, judge: StoringJudge, folder: Path, host: DeviceHost = LOCAL
) -> TeacherPool:
    """Also an installed teacher, or `module:Class`: one that takes no arguments."""
    if teacher != "llm":
        return compiler_pool_for(teacher, stage)
    from bottega.data.teachers.llm import LlmTeacher, TeacherModel

    settings = EpisodeSettings(
        device=stage.device,
        baselines=stage.baselines,
        precision=stage.precision,
        schemes=0,
        style=prompt_style(backbone),
        max_tokens=8192 if backbone.startswith("server:") else 2048,
    )
    model = TeacherModel(backbone, open_backbone(backbone), settings)
    made = LlmTeacher(model, judge, host.facts(stage.device), folder / EPISODES, failed=judge.store.add_mutants)
    return InProcessTeacherPool(made)
