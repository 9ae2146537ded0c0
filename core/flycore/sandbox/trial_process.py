"""Runs the program of a launch to its end, outside of any call: to try what this machine can confine.

The process stays in the session of this one, so that it is never taken for what a call left behind, and it
may be started from any thread. Calls are started by `runners/child`, which takes the same steps.
"""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from contextlib import ExitStack

from flycore.sandbox.launch import OUTER_ENVIRONMENT, Launch


def run_trial(launch: Launch, timeout_s: float, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Start the program, wait for its end, and close the launch with all its descriptors.

    Raises OSError, and subprocess.TimeoutExpired once the process was killed.
    """
    with ExitStack() as stack:
        stack.callback(launch.close)
        launch.let_go()
        if launch.status is not None:
            stack.callback(os.close, launch.status)
        argv, environment, descriptors = launch.argv, launch.environment, launch.descriptors
        if launch.restriction is not None:
            # A process of Python's own, because a fork of this one with its threads could block.
            command = (launch.restriction.order, argv, dict(environment), launch.cwd)
            listed = os.memfd_create("command", os.MFD_CLOEXEC)
            stack.callback(os.close, listed)
            os.pwrite(listed, marshal.dumps(command), 0)
            argv = (sys.executable, "-I", "-S", launch.restriction.module, str(listed))
            environment, descriptors = OUTER_ENVIRONMENT, (*descriptors, listed)
        return subprocess.run(
            argv,
            input=stdin,
            env=dict(environment),
            pass_fds=descriptors,
            cwd=launch.cwd if launch.restriction is None else "/",
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
