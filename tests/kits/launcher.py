"""Starts a forked process in the place of a program: `launcher.py SERVER ENTRY ARGUMENT …`.

tmux, an MCP client or a shell starts this file where it would start the program. The forked process gets
its arguments, environment, folder, standard streams and controlling terminal, and the signals that are sent
to it. The launcher ends as the forked process does. It imports as little as possible, since it starts often.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import signal
import sys
import termios

PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
CHUNK = 65_536


def main() -> int:
    """Ask the server for the process, pass signals on to it, and return its exit code."""
    address, entry, *argv = sys.argv[1:]
    terminal = leave_terminal()
    # A signal that comes before the process is there waits for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    document = {
        "entry": entry,
        "argv": argv,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "new_session": terminal,
        "own_terminal": terminal,
        "shown": False,
    }
    job = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    job.connect(address)
    streams = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range(3))
    job.sendmsg([b"\n"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    job.sendall(repr(document).encode() + b"\n")
    pid = int(read_line(job))
    # Nobody would see the end of a pipe or a terminal while the launcher has it open, too.
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    for signum in PASSED_ON:
        signal.signal(signum, lambda number, _: pass_on(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    return os.waitstatus_to_exitcode(int(read_line(job)))


def pass_on(pid: int, number: int) -> None:
    """Send the signal, unless the process has just ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def leave_terminal() -> bool:
    """Give up the controlling terminal, so that the forked process can have it; whether there was one."""
    if os.getsid(0) != os.getpid() or not os.isatty(0):
        return False
    # The system sends HUP to the session that loses its terminal. Blocked, it would come later all the same.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        fcntl.ioctl(0, termios.TIOCNOTTY)
    except OSError:
        return False
    return True


def read_line(job: _socket.socket) -> bytes:
    """The server's next line; 9, the status of a killed process, once the server is gone."""
    line = b""
    while not line.endswith(b"\n"):
        part = job.recv(1)
        if not part:
            return b"9"
        line += part
    return line


if __name__ == "__main__":
    code = main()
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
