"""The filter is judged by an interpreter of BPF, on both architectures, and by a process that has it."""

from __future__ import annotations

import errno
import platform
import struct
import subprocess
import sys

import pytest

from flycore.sandbox.seccomp import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    Architecture,
    address_families,
    assemble,
    filter_bytes,
)
from kits.tables import each_row

AUDIT = {Architecture.X86_64: 0xC000003E, Architecture.AARCH64: 0xC00000B7}
ALLOWED, KILLED = 0x7FFF0000, 0x80000000
MACHINES = list(Architecture)
# From the tables of Linux, written down here a second time: the filter must not be compared with itself.
BY_NAME = {
    Architecture.X86_64: {
        "read": 0, "socket": 41, "socketpair": 53, "clone": 56, "fork": 57, "ioctl": 16, "ptrace": 101,
        "unshare": 272, "setns": 308, "mount": 165, "bpf": 321, "keyctl": 250, "userfaultfd": 323,
        "io_uring_setup": 425, "clone3": 435, "pidfd_getfd": 438, "process_vm_readv": 310,
        "perf_event_open": 298, "open_by_handle_at": 304, "pidfd_open": 434, "memfd_create": 319,
    },
    Architecture.AARCH64: {
        "read": 63, "socket": 198, "socketpair": 199, "clone": 220, "ioctl": 29, "ptrace": 117,
        "unshare": 97, "setns": 268, "mount": 40, "bpf": 280, "keyctl": 219, "userfaultfd": 282,
        "io_uring_setup": 425, "clone3": 435, "pidfd_getfd": 438, "process_vm_readv": 270,
        "perf_event_open": 241, "open_by_handle_at": 265, "pidfd_open": 434, "memfd_create": 279,
    },
}  # fmt: skip


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run the filter over one system call, and return what it answers."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, audit, 0, *padded)
    steps = list(struct.iter_unpack("<HBBI", program))
    accumulator, at = 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
            continue
        holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
        at += then if holds[code] else otherwise


@pytest.mark.parametrize("machine", MACHINES)
def test_each_jump_stays_in_the_program_and_each_path_ends(machine: Architecture) -> None:
    for families in ((), (AF_UNIX,), (AF_UNIX, AF_INET, AF_INET6)):
        steps = assemble(machine, families)
        assert steps[-1].code == 0x06
        for at, step in enumerate(steps[:-1]):
            assert at + 1 + max(step.then, step.otherwise) < len(steps)
            assert max(step.then, step.otherwise) < 256


@each_row("machine", MACHINES)
@each_row(
    ("name", "number"),
    [
        *((name, errno.EPERM) for name in ("ptrace", "unshare", "setns", "mount", "bpf", "keyctl")),
        *((name, errno.EPERM) for name in ("userfaultfd", "pidfd_getfd", "process_vm_readv")),
        *((name, errno.EPERM) for name in ("perf_event_open", "open_by_handle_at")),
        *((name, errno.ENOSYS) for name in ("clone3", "io_uring_setup")),
    ],
)
def test_what_leads_around_the_sandbox_is_refused(machine: Architecture, name: str, number: int) -> None:
    program = filter_bytes(machine, (AF_UNIX, AF_INET, AF_INET6))
    assert verdict(program, AUDIT[machine], BY_NAME[machine][name]) == 0x50000 | number


@each_row("machine", MACHINES)
@each_row("name", ["read", "socketpair", "pidfd_open", "memfd_create"])
def test_what_every_program_needs_is_allowed(machine: Architecture, name: str) -> None:
    assert verdict(filter_bytes(machine, ()), AUDIT[machine], BY_NAME[machine][name]) == ALLOWED


@each_row("machine", MACHINES)
@each_row("network", [True, False])
@each_row("unix", [True, False])
def test_only_the_granted_families_of_sockets_open(machine: Architecture, network: bool, unix: bool) -> None:
    program = filter_bytes(machine, address_families(network=network, unix=unix))
    granted = {1: unix, 2: network, 10: network, 16: False, 17: False, 40: False, 38: False}
    for family, open_ in granted.items():
        wanted = ALLOWED if open_ else 0x50000 | errno.EAFNOSUPPORT
        # The upper half of the argument is not looked at by the kernel, so it must change nothing.
        for high in (0, 1 << 32, 0xFFFFFFFF << 32):
            answer = verdict(program, AUDIT[machine], BY_NAME[machine]["socket"], high | family)
            assert answer == wanted, family


@pytest.mark.parametrize("machine", MACHINES)
def test_a_thread_and_a_fork_are_allowed_and_a_namespace_is_not(machine: Architecture) -> None:
    program = filter_bytes(machine, ())
    clone = BY_NAME[machine]["clone"]
    assert verdict(program, AUDIT[machine], clone, 0x003D0F00) == ALLOWED  # what pthread_create asks for
    assert verdict(program, AUDIT[machine], clone, 17) == ALLOWED  # SIGCHLD: a fork
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
        assert verdict(program, AUDIT[machine], clone, bit | 17) == 0x50000 | errno.EPERM, hex(bit)


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_types_into_a_terminal(machine: Architecture) -> None:
    program = filter_bytes(machine, ())
    for request, refused in ((0x5412, True), (0x541C, True), (0x5401, False), (0x5413, False)):
        answer = verdict(program, AUDIT[machine], BY_NAME[machine]["ioctl"], 0, request | 7 << 32)
        assert answer == (0x50000 | errno.EPERM if refused else ALLOWED)


def test_another_architecture_ends_and_x32_does_not_pass_by() -> None:
    x86, arm = (filter_bytes(machine, ()) for machine in (Architecture.X86_64, Architecture.AARCH64))
    assert verdict(x86, 0x40000003, 11) == KILLED  # i386
    assert verdict(arm, 0x40000028, 11) == KILLED  # 32-bit ARM
    assert verdict(x86, AUDIT[Architecture.X86_64], 0x40000000 | 101) == 0x50000 | errno.ENOSYS


PROGRAM = """
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = bytes.fromhex(sys.argv[1])
buffer = ctypes.create_string_buffer(code, len(code))
class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))
asked = Filter(len(code) // 8, ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(asked)) == 0, ctypes.get_errno()
import subprocess, threading
threading.Thread(target=lambda: None).start()
left, right = socket.socketpair()
left.send(b"x")
assert right.recv(1) == b"x"
assert subprocess.run(["/bin/true"]).returncode == 0
def tried(function):
    try:
        function()
    except OSError as error:
        return error.errno
    return 0
def raw(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
print(tried(lambda: socket.socket(socket.AF_INET)), tried(lambda: socket.socket(socket.AF_UNIX)),
      tried(lambda: raw(int(sys.argv[2]), 0)))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers here are those of x86-64")
def test_a_process_with_the_filter_works_and_is_refused() -> None:
    program = filter_bytes(Architecture.X86_64, address_families(network=False, unix=True))
    ran = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, program.hex(), str(BY_NAME[Architecture.X86_64]["unshare"])],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.stdout.split(), ran.stderr) == ([str(errno.EAFNOSUPPORT), "0", str(errno.EPERM)], "")
