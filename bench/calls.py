"""The shared parts of P1 to P5: the echo sidecar and its caller in C, a loop over calls, and rows.

All candidates are measured in turn, round by round, in one run. A figure is the median of the rounds.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import anyio
from common import Row, spread

BUILD = Path(__file__).parent / ".build"
ROUNDS = {"quick": 3, "full": 9}
CALLS = {"quick": 150, "full": 600}
WARM_UP = 20
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "FLYTUI_CALL_ID": "bench"}

ECHO_C = r"""
#include <unistd.h>
int main(void) {
    static char buffer[65536];
    while (read(0, buffer, sizeof buffer) > 0) { }
    return write(1, "{\"ok\": true}\n", 13) == 13 ? 0 : 1;
}
"""

REFERENCE_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
struct call { pid_t pid; int out, err; double begun; };
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
static double cpu(int who) {
    struct rusage u;
    getrusage(who, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}
static int compare(const void *a, const void *b) {
    double x = *(double *)a, y = *(double *)b;
    return (x > y) - (x < y);
}
static void begin(
    struct call *c, char *program, char **argv, char *filter, const char *request, size_t length
) {
    int in[2], out[2], err[2];
    posix_spawn_file_actions_t actions; posix_spawnattr_t attributes;
    c->begun = now();
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) exit(2);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    if (filter) {
        posix_spawn_file_actions_addopen(&actions, 9, filter, O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, 10, "/dev/null", O_WRONLY, 0);
    }
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    if (posix_spawn(&c->pid, program, &actions, &attributes, argv, environ)) exit(3);
    posix_spawn_file_actions_destroy(&actions); posix_spawnattr_destroy(&attributes);
    close(in[0]); close(out[1]); close(err[1]);
    if (write(in[1], request, length) != (ssize_t)length) exit(4);
    close(in[1]); c->out = out[0]; c->err = err[0];
}
int main(int argc, char **argv) {
    int calls = atoi(argv[2]), width = atoi(argv[3]), started = 0, done = 0;
    const char *request = argv[4]; size_t length = strlen(request);
    char *filter = argc > 5 ? argv[5] : NULL, *alone[] = {argv[1], NULL};
    /* What follows the filter is the command's own words; its first one is its name. */
    char **words = argc > 6 ? argv + 6 : alone;
    struct call *slots = calloc(width, sizeof *slots); struct pollfd *polls = calloc(width, sizeof *polls);
    double *times = calloc(calls, sizeof *times), begun = now();
    double used = cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN);
    static char buffer[65536];
    /* bwrap does not wait for its child, which would be left to the next parent that wants such children. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (int i = 0; i < width; i++) { polls[i].fd = -1; polls[i].events = POLLIN; }
    while (done < calls) {
        for (int i = 0; i < width && started < calls; i++)
            if (polls[i].fd < 0) {
                begin(&slots[i], argv[1], words, filter, request, length);
                polls[i].fd = slots[i].out;
                started++;
            }
        poll(polls, width, -1);
        for (int i = 0; i < width; i++) {
            if (polls[i].fd < 0 || !polls[i].revents) continue;
            if (read(slots[i].out, buffer, sizeof buffer) > 0) continue;
            while (read(slots[i].err, buffer, sizeof buffer) > 0) { }
            close(slots[i].out); close(slots[i].err);
            waitpid(slots[i].pid, NULL, 0);
            times[done++] = now() - slots[i].begun; polls[i].fd = -1;
        }
    }
    double took = now() - begun, spent = cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN) - used;
    qsort(times, calls, sizeof *times, compare);
    while (wait(NULL) > 0) { }
    printf("{\"p50\": %f, \"cpu\": %f, \"rate\": %f}\n", times[calls / 2], spent / calls, calls / took * 1e6);
    return 0;
}
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one round: `p50` and `cpu` in microseconds a call, `rate` in calls a second.

    `cpu` is the processor time of this process alone, but for the caller in C that of its children as well.
    """

    p50: float
    cpu: float
    rate: float


def echo_program() -> Path:
    """Compile the sidecar, which reads to the end, answers and exits."""
    return compiled("echo", ECHO_C)


def c_caller(
    program: Path, request: bytes, calls: int, *, filter_file: Path | None = None, words: Sequence[str] = ()
) -> Callable[[int], Figures]:
    """Compile the caller in C, which runs the program so many times, so many at once. `words` are its whole
    argv; with `filter_file` it has that file as descriptor 9, and /dev/null as descriptor 10."""
    reference = compiled("reference", REFERENCE_C)
    confined = () if filter_file is None else (str(filter_file), *words)

    def measure(width: int) -> Figures:
        command = (str(reference), str(program), str(calls), str(width), request.decode(), *confined)
        done = subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
        return Figures(**json.loads(done.stdout))

    return measure


async def measure_calls(call: Callable[[], Awaitable[None]], calls: int, width: int) -> Figures:
    """Make so many calls, `width` at once, and return their figures."""
    for _ in range(WARM_UP):
        await call()
    times: list[float] = []
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            begun = time.perf_counter()
            await call()
            times.append(time.perf_counter() - begun)

    begun, used = time.perf_counter(), _cpu()
    async with anyio.create_task_group() as group:
        for _ in range(width):
            group.start_soon(worker)
    took, spent = time.perf_counter() - begun, _cpu() - used
    return Figures(p50=median(times) * 1e6, cpu=spent / calls * 1e6, rate=calls / took)


def row(
    name: str,
    unit: str,
    rounds: list[tuple[float, float]],
    target: str,
    note: str,
    *,
    least: float = 0.0,
    most: float = math.inf,
    goal: str,
) -> Row:
    """The row of `rounds`. Each figure is compared with the reference that was measured just before it."""
    ratios = [ratio for _, ratio in rounds]
    ratio = median(ratios)
    value = median(figure for figure, _ in rounds)
    return Row(goal, name, value, unit, ratio, target, least <= ratio <= most, note, spread(ratios))


def _cpu() -> float:
    # Without the children: bwrap does not wait for its child, so only a part of its use would be counted.
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def compiled(name: str, source: str) -> Path:
    """Compile a C source and return the path of the program."""
    BUILD.mkdir(exist_ok=True)
    code, program = BUILD / f"{name}.c", BUILD / name
    if not program.exists() or code.read_text() != source:
        code.write_text(source)
        subprocess.run(["cc", "-O2", "-o", program, code], check=True)
    return program
