"""A process that has no descriptor left still sees its children, and ends them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess

import pytest

from flysafe.procfs import own_children, process_table, read_process, send_signal
from flysafe.spare_descriptors import keep_spare_descriptors, with_spare_descriptors
from kits.descriptors import none_left


def test_children_are_seen_and_ended_where_no_descriptor_is_left() -> None:
    keep_spare_descriptors()
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            with none_left():
                with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                    os.open(os.devnull, os.O_RDONLY)
                assert child.pid in own_children()
                assert child.pid in process_table()
                process = read_process(child.pid)
                assert process is not None
                send_signal(process, signal.SIGKILL)
                assert child.wait(60) == -signal.SIGKILL
                with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                    os.open(os.devnull, os.O_RDONLY)
        finally:
            child.kill()


def test_an_error_that_is_no_lack_of_descriptors_is_raised_at_once() -> None:
    keep_spare_descriptors()
    attempts = []

    def work() -> None:
        attempts.append(1)
        raise OSError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        with_spare_descriptors(work)
    assert len(attempts) == 1
