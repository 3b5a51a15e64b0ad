"""The system-call filter: a deny list in hand-written BPF, for calls that compute programs and compilers do not need and that could break isolation.

A deny list, because GPU drivers, compilers and OpenMP use more calls than an allow list could follow; the name spaces and
the missing privileges bound what an unlisted call can reach.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence

from bottega.sandbox import linux

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); None where that architecture never had the call
DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes' memory, descriptors and state
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "seccomp": (317, 277),
    # mounts and name spaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # wide kernel interfaces that compute programs do not need
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    # the machine itself
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "nfsservctl": (180, 42),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    # calls that go on for minutes, whatever is sent to stop or kill them
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # memory that the supervisor could not add up
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "semget": (64, 190),  # two mebibytes a set, and 32,000 sets
    "setxattr": (188, 5),  # access lists: 64 KiB for each file, which no file system counts
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}

# Answered with ENOSYS, for which libc and the core utilities have another way.
ABSENT: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),  # its flags lie in memory, where a filter cannot look; libc falls back to clone
    "timer_create": (222, 107),  # may send SIGCONT, which would thaw a frozen sandbox
    "io_setup": (206, 0),  # one call reads thousands of times, and neither stops nor dies in between
    "splice": (275, 76),  # these three put memory into pipes that no process maps
    "tee": (276, 77),
    "vmsplice": (278, 75),
    # what wakes somebody up while a sandbox is stopped: the kernel then calls all who watch, hundreds of thousands if one likes, in the
    # time of whoever is on that core
    "timerfd_create": (283, 85),
    "signalfd": (282, None),
    "signalfd4": (289, 74),
    "inotify_init": (253, None),  # the same, in the time of whoever touches a file that sandboxes share
    "inotify_init1": (294, 26),
}

# Done without being done: libraries go on. Everyone in a sandbox stays in one group and one session, since the kernel continues the stopped
# members of a group that becomes orphaned; and stays readable to its supervisor.
IGNORED: dict[str, tuple[int | None, int | None]] = {
    "setpgid": (109, 154),
    "setsid": (112, 157),
}

# A message with descriptors in it keeps them open while nobody has them: memory that belongs to no process. Filters see no further than
# a pointer to the message, so that only whoever hands out memory, the controller, sends any by these calls.
SENDING: dict[str, tuple[int | None, int | None]] = {
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
}

# Also absent for all but the controller, who keeps a task's time by them: an alarm rings in a stopped sandbox too.
ALARMS: dict[str, tuple[int | None, int | None]] = {
    "alarm": (37, None),
    "setitimer": (38, 103),
}

_CLONE, _SOCKET, _SOCKETPAIR = (56, 220), (41, 198), (53, 199)
_PERSONALITY, _PRLIMIT, _FCNTL, _IOCTL, _PRCTL = (135, 92), (302, 261), (72, 25), (16, 29), (157, 167)
_CLONE_PARENT = 0x8000
_NAMESPACES = 0x7E020000
_AF_UNIX = 1
_F_SETSIG, _F_NOTIFY = 10, 1026
"""A signal of one's choice may be SIGCONT, see timer_create; signals about a folder are sent by whoever touches it, see inotify_init."""
_F_LOCKS = (6, 7, 37, 38)
"""F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW: 200 bytes a lock, and no limit. Done without being done; `flock` has one lock a file."""
_TERMINAL = (0x5412, 0x541C, 0x540E, 0x5422)
"""TIOCSTI, TIOCLINUX: typing into the user's terminal. TIOCSCTTY, TIOCNOTTY: a session that loses its terminal is continued."""
_EXIT_SIGNAL, _SIGCHLD = 0xFF, 17
_PR_TASK_PERF_EVENTS_DISABLE = 31

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000


def _instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


def _deny(number: int = errno.EPERM) -> bytes:
    return _instruction(_RETURN, _ERRNO | number)


def _low_word(argument: int) -> int:
    """Offset of the low half of an argument: all flags of interest fit there, and both architectures are little endian."""
    return _ARGUMENT + 8 * argument


def _block(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body` for this call only. The body either returns or ends with the call allowed."""
    return [_instruction(_EQUAL, number, 0, len(body) + 1), *body, _instruction(_RETURN, _ALLOW)]


def _among(values: Sequence[int], answer: bytes) -> list[bytes]:
    """`answer` when the loaded word is one of these."""
    left = len(values)
    return [
        *(_instruction(_EQUAL, value, left - 1 - index, 1 if index == left - 1 else 0) for index, value in enumerate(values)),
        answer,
    ]


def filter_program(machine: str = linux.MACHINE, *, trusted: bool = False) -> bytes:
    """The filter as the kernel takes it. KeyError: no table for this architecture."""
    architecture = ARCHITECTURE[machine]
    column = 0 if machine == "x86_64" else 1
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [_instruction(_AT_LEAST, _X32, 0, 1), _deny(errno.ENOSYS)]
    done = 0
    tables = [(DENIED, errno.EPERM), (ABSENT, errno.ENOSYS), (IGNORED, done)]
    if not trusted:
        tables += [(SENDING, errno.EPERM), (ALARMS, errno.ENOSYS)]
    for table, answer in tables:
        for numbers in table.values():
            number = numbers[column]
            if number is not None:
                program += [_instruction(_EQUAL, number, 0, 1), _deny(answer)]
    program += _block(
        _CLONE[column],
        [
            _instruction(_LOAD, _low_word(0)),
            _instruction(_ANY_BIT, _NAMESPACES | _CLONE_PARENT, 0, 1),
            _deny(),
            _instruction(_AND, _EXIT_SIGNAL),  # what its parent gets when it ends: SIGCONT, for one
            _instruction(_EQUAL, 0, 2, 0),
            _instruction(_EQUAL, _SIGCHLD, 1, 0),
            _deny(),
        ],
    )
    for call in (_SOCKET, _SOCKETPAIR):
        only_local = [_instruction(_LOAD, _low_word(0)), _instruction(_EQUAL, _AF_UNIX, 1, 0), _deny(errno.EAFNOSUPPORT)]
        program += _block(call[column], only_local)
    query = 0xFFFFFFFF
    program += _block(_PERSONALITY[column], [_instruction(_LOAD, _low_word(0)), _instruction(_EQUAL, query, 1, 0), _deny()])
    # Where the supervisor has the same user as its child, prlimit on it would be allowed and could kill it.
    program += _block(_PRLIMIT[column], [_instruction(_LOAD, _low_word(0)), _instruction(_EQUAL, 0, 1, 0), _deny()])
    told = [*_among((_F_SETSIG, _F_NOTIFY), _deny()), *_among(_F_LOCKS, _deny(done))]
    program += _block(_FCNTL[column], [_instruction(_LOAD, _low_word(1)), *told])
    program += _block(_IOCTL[column], [_instruction(_LOAD, _low_word(1)), *_among(_TERMINAL, _deny())])
    # A parent's death could be the signal that continues a stopped child.
    refused = (_PR_TASK_PERF_EVENTS_DISABLE, linux.PR_SET_PDEATHSIG, linux.PR_SET_SECCOMP)
    # Whoever hides itself says that it did, and does not; to be seen again is anybody's right.
    hiding = [
        _instruction(_EQUAL, linux.PR_SET_DUMPABLE, 0, 3),
        _instruction(_LOAD, _low_word(1)),
        _instruction(_EQUAL, 1, 1, 0),
        _deny(done),
    ]
    told = [_instruction(_LOAD, _low_word(0)), *_among(refused, _deny()), *([] if trusted else hiding)]
    program += _block(_PRCTL[column], told)
    program.append(_instruction(_RETURN, _ALLOW))
    return b"".join(program)
