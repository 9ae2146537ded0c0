"""A program that tries to get out of the sandbox in which it was started, and says where it could.

It is run as a file by any Python 3.9 or newer, uses the standard library only, and imports nothing of ours.
It reads one JSON object on standard input, the places that `escape_trial` prepared for it, and prints one
JSON object: the name of each probe with `open`, `shut` or `missing`, and the error where there was one.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

TIMEOUT_S = 3.0
_MARKER = b"flytui-escape-marker"
_NUMBERS = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298,
        "keyctl": 250, "unshare": 272, "mount": 165, "open_by_handle_at": 304, "shmget": 29,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "bpf": 280, "userfaultfd": 282, "perf_event_open": 241,
        "keyctl": 219, "unshare": 97, "mount": 40, "open_by_handle_at": 265, "shmget": 194,
    },
}  # fmt: skip
_EVERYWHERE = {"pidfd_open": 434, "pidfd_getfd": 438, "io_uring_setup": 425}
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


class UnsupportedProbe(Exception):
    """The machine lacks what the probe would try."""


def _call(name: str, *arguments: object) -> int:
    numbers = {**_NUMBERS.get(platform.machine(), {}), **_EVERYWHERE}
    if name not in numbers:
        raise UnsupportedProbe(platform.machine())
    answer = int(_LIBC.syscall(ctypes.c_long(numbers[name]), *arguments))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def _connect(family: int, kind: int, address: object) -> None:
    with socket.socket(family, kind) as opened:
        opened.settimeout(TIMEOUT_S)
        opened.connect(address)  # type: ignore[arg-type]  # an address of any family
        opened.send(_MARKER)
        if opened.recv(64) != _MARKER:
            raise OSError("no answer")


def _family(number: int) -> None:
    socket.socket(number, socket.SOCK_DGRAM if number != 40 else socket.SOCK_STREAM).close()


def _search_proc(name: str) -> None:
    """Raises unless a process outside can be read: one whose file holds the marker."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/{name}", "rb") as file:
                if _MARKER in file.read(1 << 20):
                    return
        except OSError:
            continue
    raise PermissionError("no process outside was found")


def _root_of_another(path: str) -> None:
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/root{path}", "rb") as file:
                file.read(1)
                return
        except OSError:
            continue
    raise PermissionError("no process outside was found")


def _read_memory(pid: int) -> None:
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        start = int(maps.readline().split("-")[0], 16)
    remote = (ctypes.c_void_p * 2)(start, 8)
    one = ctypes.c_ulong(1)
    _call("process_vm_readv", pid, ctypes.byref(vector), one, ctypes.byref(remote), one, ctypes.c_ulong(0))


def _take_descriptor(pid: int) -> None:
    pidfd = _call("pidfd_open", pid, 0)
    try:
        os.close(_call("pidfd_getfd", pidfd, 0, 0))
    finally:
        os.close(pidfd)


def _secrets_of_the_kernel(name: bytes) -> None:
    """Raises unless the variable of that name, which this program was not given, can be found."""
    if not name:
        raise UnsupportedProbe("the kernel has no variable that is not passed on")
    for process in ("self", "1", str(os.getppid())):
        try:
            with open(f"/proc/{process}/environ", "rb") as file:
                if any(line.startswith(name + b"=") for line in file.read(1 << 20).split(b"\0")):
                    return
        except OSError:
            continue
    raise PermissionError("it is not there")


def _inherited_descriptor() -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and not os.readlink(f"/proc/self/fd/{name}").startswith("/proc/"):
            return
    raise PermissionError("there is none")


def _type_into_terminal() -> None:
    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, 0x5412, b"x")
    finally:
        os.close(ours)
        os.close(theirs)


def _in_child(act: Callable[[], object]) -> None:
    """Run what would change this process for good in a child; raises what it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            act()
        except OSError as error:
            code = error.errno or 255
        except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
            code = 255
        os._exit(code)
    os.close(writer)
    os.close(reader)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(abs(code), os.strerror(abs(code)))


def _mount(folder: str) -> None:
    _call("mount", b"none", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), None)
    _LIBC.umount2(os.fsencode(folder), 2)


def _open_by_handle() -> None:
    """Raises unless the call gets as far as looking at the handle."""
    handle = ctypes.create_string_buffer(b"\x08\x00\x00\x00\x01\x00\x00\x00" + bytes(8), 16)
    folder = os.open("/", os.O_RDONLY)
    try:
        os.close(_call("open_by_handle_at", folder, ctypes.byref(handle), 0))
    except OSError as error:
        if error.errno not in (116, 22):  # ESTALE, EINVAL: the handle is wrong, the right was there
            raise
    finally:
        os.close(folder)


def _anything(name: str, *arguments: object) -> None:
    """Call with arguments that cannot work; raises unless the kernel looked at them."""
    try:
        _call(name, *arguments)
    except OSError as error:
        if error.errno not in (14, 22, 7):  # EFAULT, EINVAL, E2BIG
            raise


def _write(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"x")


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def _run_written(folder: str) -> None:
    path = os.path.join(folder, "written")
    with open(path, "wb") as file:
        file.write(b"#!/bin/sh\nexit 0\n")
    os.chmod(path, 0o700)
    if subprocess.run([path], check=False).returncode:
        raise PermissionError("it did not run")


def _run_memory() -> None:
    if not hasattr(os, "memfd_create"):
        raise UnsupportedProbe("memfd_create")
    with open("/bin/true", "rb") as file:
        program = file.read()
    descriptor = os.memfd_create("program", 0)
    os.write(descriptor, program)
    path = f"/proc/self/fd/{descriptor}"
    try:
        if subprocess.run([path], pass_fds=[descriptor], check=False).returncode:
            raise PermissionError("it did not run")
    finally:
        os.close(descriptor)


def _pair() -> None:
    left, right = socket.socketpair()
    left.send(_MARKER)
    if right.recv(64) != _MARKER:
        raise OSError("no answer")


def _network(at: dict[str, object]) -> Iterator[tuple[str, Callable[[], object]]]:
    stream, datagram, unix = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.AF_UNIX
    yield "tcp-host-loopback", lambda: _connect(socket.AF_INET, stream, ("127.0.0.1", at["tcp"]))
    yield "udp-host-loopback", lambda: _connect(socket.AF_INET, datagram, ("127.0.0.1", at["udp"]))
    yield "unix-socket-outside", lambda: _connect(unix, stream, at["socket_outside"])
    yield "unix-socket-in-granted-folder", lambda: _connect(unix, stream, at["socket_inside"])
    yield "unix-socket-abstract", lambda: _connect(unix, stream, "\0" + str(at["socket_abstract"]))
    yield "d-bus", lambda: _connect(unix, stream, at["d_bus"])
    yield "x11-path", lambda: _connect(unix, stream, at["x11"])
    yield "x11-abstract", lambda: _connect(unix, stream, "\0" + str(at["x11"]))
    yield "netlink", lambda: _family(16)
    yield "vsock", lambda: _family(40)
    yield "packet", lambda: _family(17)
    yield "needed-socketpair", _pair
    yield "needed-read", lambda: _read(f"{at['read']}/file")
    yield "needed-write", lambda: _write(f"{at['write']}/file")


def _processes(at: dict[str, object]) -> Iterator[tuple[str, Callable[[], object]]]:
    pid = int(str(at["pid"]))
    yield "process-environ", lambda: _search_proc("environ")
    yield "process-cmdline", lambda: _search_proc("cmdline")
    yield "process-root", lambda: _root_of_another(str(at["outside"]) + "/file")
    yield "process-signal-0", lambda: os.kill(pid, 0)
    yield "process-signal-stop", lambda: os.kill(pid, signal.SIGSTOP)
    yield "process-ptrace", lambda: _in_child(lambda: _call("ptrace", ctypes.c_long(16), pid, 0, 0))
    yield "process-memory", lambda: _read_memory(pid)
    yield "process-descriptor", lambda: _take_descriptor(pid)
    yield "kernel-environment", lambda: _secrets_of_the_kernel(os.fsencode(str(at["kernel_variable"])))
    yield "inherited-descriptor", _inherited_descriptor


def _kernel_surface(at: dict[str, object]) -> Iterator[tuple[str, Callable[[], object]]]:
    null = ctypes.c_void_p(0)
    yield "io-uring", lambda: _anything("io_uring_setup", 1, null)
    yield "bpf", lambda: _anything("bpf", 0, null, 0)
    yield "userfaultfd", lambda: os.close(_call("userfaultfd", 0))
    yield "perf-event-open", lambda: _anything("perf_event_open", null, 0, -1, -1, ctypes.c_ulong(0))
    yield "keyctl", lambda: _call("keyctl", 0, -3, 1)  # the session's keyring, made where there is none
    yield "user-namespace", lambda: _in_child(lambda: _call("unshare", 0x10000000))
    yield "mount", lambda: _in_child(lambda: _mount(str(at["write"])))
    yield "open-by-handle", _open_by_handle
    yield "shared-memory", lambda: _call("shmget", int(str(at["shm_key"])), ctypes.c_ulong(0), 0)
    yield "type-into-terminal", _type_into_terminal


def _files(at: dict[str, object]) -> Iterator[tuple[str, Callable[[], object]]]:
    outside, read, write = str(at["outside"]), str(at["read"]), str(at["write"])
    yield "read-outside", lambda: _read(f"{outside}/file")
    yield "stat-outside", lambda: os.stat(f"{outside}/file")
    yield "list-outside", lambda: os.listdir(outside)
    yield "read-shadow", lambda: _read("/etc/shadow")
    yield "read-through-link", lambda: _read(f"{read}/link")
    yield "write-read-only", lambda: _write(f"{read}/file")
    yield "chmod-read-only", lambda: os.chmod(f"{read}/file", 0o644)
    yield "utime-read-only", lambda: os.utime(f"{read}/file")
    yield "write-outside", lambda: _write(f"{outside}/file")
    yield "chmod-outside", lambda: os.chmod(f"{outside}/file", 0o644)
    yield "utime-outside", lambda: os.utime(f"{outside}/file")
    yield "write-through-link", lambda: _write(f"{write}/link")
    yield "hard-link-into-grant", lambda: os.link(f"{outside}/linked", f"{write}/linked")
    yield "rename-into-grant", lambda: os.rename(f"{outside}/renamed", f"{write}/renamed")
    yield "write-protected", lambda: _write(f"{write}/protected/policy.jsonc")
    yield "run-written-file", lambda: _run_written(write)
    yield "run-from-memory", _run_memory


def main() -> int:
    """Try every probe and print what each could do."""
    at = json.load(sys.stdin)
    results = {}
    for group in (_network, _processes, _kernel_surface, _files):
        for name, act in group(at):
            results[name] = _result_of(act)
    sys.stdout.write(json.dumps(results) + "\n")
    return 0


def _result_of(act: Callable[[], object]) -> tuple[str, str]:
    try:
        act()
    except UnsupportedProbe as reason:
        return ("missing", str(reason))
    except (OSError, subprocess.SubprocessError) as error:
        return ("shut", f"{type(error).__name__}: {error}")
    return ("open", "")


if __name__ == "__main__":
    sys.exit(main())
