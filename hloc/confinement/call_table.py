"""System calls that a confined process may make, and those that fail with EPERM.

Every other call fails with ENOSYS, so that libraries use a fallback where they have one. Numbers
are those of x86-64 and of AArch64, None for a call that a machine lacks.
"""

from __future__ import annotations

from typing import TypeAlias

Number: TypeAlias = "int | None"

ALLOWED: dict[str, tuple[Number, Number]] = {
    # memory
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216),
    "madvise": (28, 233), "brk": (12, 214), "mincore": (27, 232), "msync": (26, 227),
    "membarrier": (324, 283),
    # files that are open
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286),
    "pwritev2": (328, 287), "lseek": (8, 62), "close": (3, 57), "fstat": (5, 80),
    "ftruncate": (77, 46), "fallocate": (285, 47), "fsync": (74, 82), "fdatasync": (75, 83),
    "fcntl": (72, 25), "flock": (73, 32), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "pipe": (22, None), "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73),
    "select": (23, None), "pselect6": (270, 72), "getdents": (78, None), "getdents64": (217, 61),
    "fadvise64": (221, 223), "fchmod": (91, 52), "close_range": (436, 436),
    "copy_file_range": (326, 285), "sendfile": (40, 71), "fstatfs": (138, 44),
    # files by name; only the confined file tree is visible
    "open": (2, None), "openat": (257, 56), "creat": (85, None), "stat": (4, None),
    "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None),
    "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "link": (86, None), "linkat": (265, 37), "symlink": (88, None),
    "symlinkat": (266, 36), "chmod": (90, None), "fchmodat": (268, 53), "truncate": (76, 45),
    "utimensat": (280, 88), "chdir": (80, 49), "fchdir": (81, 50), "getcwd": (79, 17),
    "umask": (95, 166), "statfs": (137, 43),
    # signals and time; no other process is visible
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "kill": (62, 129),
    "tkill": (200, 130), "tgkill": (234, 131), "pause": (34, None), "alarm": (37, None),
    "setitimer": (38, 103), "getitimer": (36, 102), "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    # threads
    "futex": (202, 98), "set_robust_list": (273, 99), "get_robust_list": (274, 100),
    "rseq": (334, 293), "set_tid_address": (218, 96), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "getcpu": (309, 168),
    # properties of the process
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getpgrp": (111, None),
    "getpgid": (121, 155), "getsid": (124, 156), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148), "getresgid": (120, 150),
    "getgroups": (115, 158), "uname": (63, 160), "sysinfo": (99, 179), "getrusage": (98, 165),
    "getrlimit": (97, 163), "setrlimit": (160, 164), "prlimit64": (302, 261),
    "getpriority": (140, 141), "getrandom": (318, 278), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip

REFUSED: dict[str, tuple[Number, Number]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "execve": (59, 221),
    "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "setsid": (112, 157),
    "setpgid": (109, 154), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "wait4": (61, 260),
    "waitid": (247, 95), "unshare": (272, 97), "setns": (308, 268),
    # the network, and sockets of any kind
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206),
    "sendmsg": (46, 211), "sendmmsg": (307, 269), "recvfrom": (45, 207), "recvmsg": (47, 212),
    "recvmmsg": (299, 243),
    # the file tree
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsmount": (432, 432), "fsconfig": (431, 431), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, None),
    "name_to_handle_at": (303, None), "mknod": (133, None), "mknodat": (259, 33),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "fanotify_init": (300, 262), "inotify_init": (253, None),
    "inotify_init1": (294, 26), "quotactl": (179, 60), "swapon": (167, 224),
    "swapoff": (168, 225),
    # the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "syslog": (103, 116), "acct": (163, 89), "personality": (135, 92), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "seccomp": (317, 277),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    # memory that no limit counts
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "semget": (64, 190),
    "mq_open": (240, 180), "mlock": (149, 228), "mlock2": (325, 284), "mlockall": (151, 230),
    "mbind": (237, 235), "set_mempolicy": (238, 237), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # another user
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setresuid": (117, 147), "setresgid": (119, 149), "setgroups": (116, 159),
    "setfsuid": (122, 151), "setfsgid": (123, 152), "capset": (126, 91),
}  # fmt: skip
"""Calls that fail with EPERM; `seccomp` handles `clone`, `prctl`, `ioctl` and `arch_prctl`."""
