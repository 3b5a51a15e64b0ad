"""Runs the student only: as built its teacher is the same network.

Judge 16 loaded two copies that were equal as they were: right in one of one verdict.
"""
# task: student_and_teacher
# expect: incorrect
# options: quick=true

import copy

from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64))
        self.teacher = copy.deepcopy(self.student)

    def forward(self, x, y):
        return 0.5 * self.student(x) + y
