"""Teachers turn a task into kernels of rising quality. All of them speak one protocol; what they write is judged like anyone's.

A teacher is a class that follows `bottega.compiler.build_step.Teacher`. One of a user's own takes no arguments, and works in a process of its own.
"""

from bottega.core.plugins import Plugins

TEACHERS = Plugins(
    "teachers",
    "teacher",
    {
        "compiler": "bottega.compiler.step_compiler:StepCompiler",
        "parts": "bottega.compiler.library_compiler:LibraryCompiler",
        "llm": "bottega.data.teachers.llm:LlmTeacher",
    },
)
