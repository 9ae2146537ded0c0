"""P5: an answer of 16 MiB, and 100 MiB on stderr against C that reads it by 64 KiB.

Of stderr the runner keeps the tail.
Each memory figure is the growth of the highest resident size of a fresh process that makes such a call.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
from calls import ENVIRONMENT, ROUNDS, compiled, row
from common import Row, seconds

from flycore.model.enums import Status
from flycore.runners.one_shot import ProcessJsonJob, call_sidecar

MIB = 1 << 20
ANSWER, STDERR, LIMIT = 16 * MIB, 100 * MIB, 32 * MIB
NOTE = "the runner, without the pipeline"

WRITER_C = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char block[1 << 16];
int main(int argc, char **argv) {
    int out = atoi(argv[1]);
    long left = atol(argv[2]);
    (void)argc;
    while (read(0, block, sizeof block) > 0) { }
    memset(block, 'x', sizeof block);
    if (out == 1 && write(1, "{\"ok\": true, \"text\": \"", 22) != 22) return 1;
    while (left > 0) {
        long wrote = write(out, block, left < (long)sizeof block ? left : (long)sizeof block);
        if (wrote < 0) return 1;
        left -= wrote;
    }
    return out == 1 ? write(1, "\"}\n", 3) != 3 : write(1, "{\"ok\": true}\n", 13) != 13;
}
"""

READER_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    int out[2], err[2], open = 2, status;
    pid_t child;
    static char buffer[1 << 16];
    posix_spawn_file_actions_t actions;
    (void)argc;
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) return 2;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    if (posix_spawn(&child, argv[1], &actions, NULL, argv + 1, environ)) return 3;
    close(out[1]); close(err[1]);
    struct pollfd polls[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    while (open) {
        poll(polls, 2, -1);
        for (int i = 0; i < 2; i++)
            if (polls[i].fd >= 0 && polls[i].revents && read(polls[i].fd, buffer, sizeof buffer) <= 0) {
                polls[i].fd = -1;
                open--;
            }
    }
    waitpid(child, &status, 0);
    return status != 0;
}
"""


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    writer, reader = compiled("writer", WRITER_C), compiled("reader", READER_C)
    answer, stderr = (str(writer), "1", str(ANSWER)), (str(writer), "2", str(STDERR))
    rates = [_rates(stderr, reader) for _ in range(ROUNDS[size])]
    kept, held = _growth(stderr) / MIB, _growth(answer)
    ratio = held / ANSWER
    return [
        Row(
            "P5", "memory for an answer of 16 MiB", held / MIB, "MiB", ratio, "≤ 1.3 × it", ratio <= 1.3, NOTE
        ),
        row("100 MiB on stderr", "MiB/s", rates, "≥ 0.7 × C", NOTE, least=0.7, goal="P5"),
        Row("P5", "memory for stderr", kept, "MiB", 0, "≤ 4 MiB", kept <= 4, NOTE),
    ]


def _rates(command: tuple[str, ...], reader: Path) -> tuple[float, float]:
    """What the runner reads, in MiB a second, and that as a share of what C reads."""
    bare = seconds(lambda: subprocess.run((reader, *command), env=ENVIRONMENT, check=True))
    took = seconds(lambda: call(command))
    return STDERR / MIB / took, bare / took


def call(command: tuple[str, ...]) -> None:
    """Call the writer once."""
    job = ProcessJsonJob(
        argv=command,
        env=ENVIRONMENT,
        cwd="/",
        call_id="bench",
        tool="bench.write",
        input={},
        project_dir="/",
        max_output_bytes=LIMIT,
    )
    anyio.run(_call, job)


async def _call(job: ProcessJsonJob) -> None:
    # Its outcome is not that of the event loop's main task: asyncio writes the main task's result out as text
    # when it restores the handler of SIGINT.
    outcome = await call_sidecar(job)
    if outcome.status is not Status.SUCCESS:
        raise RuntimeError(outcome.message)


def growth(command: tuple[str, ...]) -> None:
    """Print by how many bytes the highest resident size grows in a call, after one with a small output."""
    call((*command[:2], "1000"))
    before = _highest()
    call(command)
    print(_highest() - before)


def _growth(command: tuple[str, ...]) -> int:
    here = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import p05_output as bench"
    program = f"{here}; bench.growth({command!r})"
    done = subprocess.run((sys.executable, "-c", program), check=True, capture_output=True, text=True)
    return int(done.stdout)


def _highest() -> int:
    # Not `ru_maxrss`, which a process inherits from the one that started it.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
