"""System calls that a program may not make, as a seccomp filter.

The namespaces hide what belongs to others; this filter takes away what they leave: starting processes (so that the
limits of a process are limits of the run), memory that no resource limit counts, sockets (those of virtual machines
know no namespaces), watching other processes, and the parts of the kernel in which holes are found most often.
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
from functools import cache

from ...errors import ConfigError

# audit architecture, column of _DENIED
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# Numbers on x86_64 and on aarch64.
_DENIED = {
    # processes; threads are clone with CLONE_THREAD, see below
    "fork": (57, None), "vfork": (58, None),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "quotactl": (179, 60), "quotactl_fd": (443, 443),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "migrate_pages": (256, 238), "move_pages": (279, 239),
    # memory outside every limit
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "setsockopt": (54, 208),  # a pair of sockets may hold as much as it is told
    # network; pairs of local sockets stay, see below
    "socket": (41, 198),
    # the disks of the machine, and counts that all programs of a user share
    "sync": (162, 81), "syncfs": (306, 267), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "io_setup": (206, 0),
    # kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "personality": (135, 92), "modify_ldt": (154, None), "syslog": (103, 116),
    "splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75),
}  # fmt: skip
# One argument decides: threads but no processes, pairs of local sockets (asyncio needs them) but of no other family.
_CLONE = (56, 220)
_SOCKETPAIR = (53, 199)
_LOCAL = 1
_CLONE3 = 435
_CLONE_THREAD = 0x10000
# Newer calls than these are unknown here. Programs take ENOSYS for an older kernel and do without.
_FIRST_UNKNOWN = 453
_X32 = 0x40000000

# BPF: load a word of the call's data; jumps; return
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # offsets; the low word of an argument comes first
_KILL, _ALLOW, _ERROR = 0x80000000, 0x7FFF0000, 0x00050000


@cache
def seccomp_filter() -> bytes:
    """The filter in the form that `bwrap --seccomp` reads.

    Raises:
        ConfigError: The numbers of this kind of machine are not known.
    """
    machine = platform.machine()
    if machine not in _MACHINES or sys.maxsize < 2**32:
        raise ConfigError(f"the code sandbox knows x86_64 and aarch64, not {machine}; see ESCD_SANDBOX=process")
    audit, column = _MACHINES[machine]
    denied, absent = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS

    def refuse(jump: int, value: int, result: int) -> list[tuple[int, int, int, int]]:
        return [(jump, 0, 1, value), (_RETURN, 0, 0, result)]

    program = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    program += refuse(_AT_LEAST, _X32, _KILL)
    program += refuse(_AT_LEAST, _FIRST_UNKNOWN, absent)
    program += refuse(_EQUAL, _CLONE3, absent)  # its flags are out of a filter's sight; the C library then takes clone
    for numbers in _DENIED.values():
        if numbers[column] is not None:
            program += refuse(_EQUAL, numbers[column], denied)
    for numbers, jump, value in ((_CLONE, _ANY_BIT, _CLONE_THREAD), (_SOCKETPAIR, _EQUAL, _LOCAL)):
        program += [(_EQUAL, 0, 4, numbers[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        program += [(jump, 0, 1, value), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, denied)]
    program += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
