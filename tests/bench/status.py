#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""status.py [ROUNDS]: `flux-dat status` against `flux jobs -A`, on a real Flux with one
DAT, and with 1,000 jobs of which 50 are DATs; and the CPU time of `flux-dat --version`."""

import os
import sys

import measure


def cpu_seconds(place, *command):
    """Of the command alone: posix_spawn has no Python between fork and exec, whose time
    would be counted as the command's."""
    program = place.bin / command[0]
    null = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    pid = os.posix_spawn(str(program), command, place.env, file_actions=null)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{command}: status {status}")
    return usage.ru_utime + usage.ru_stime


JOBS, DATS = 1000, 50


def rounds_of_both(place, count):
    return measure.rounds(
        {
            "flux-dat status": lambda: measure.timed(lambda: place.run("flux-dat", "status")),
            "flux jobs -A": lambda: measure.timed(lambda: place.run("flux", "jobs", "-A")),
        },
        count,
    )


def fill(place):
    """1,000 active jobs: held ones, and pending DATs."""
    for number in range(DATS):
        place.run(
            "flux-dat", "start", "--no-wait", "--begin-time", "+1d", "--name", f"d{number}",
            "--quiet", "--user", "games",
        )  # fmt: skip
    place.run("flux", "submit", "--quiet", "--urgency=hold", f"--cc=1-{JOBS - DATS}", "true")
    listed = place.run("flux-dat", "status", "-n").splitlines()
    if len(listed) != DATS:
        raise SystemExit(f"{len(listed)} DATs are listed, and not {DATS}")


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    with measure.flux_instance(4) as place:
        doors = place.make("doors")
        place.run("flux-dat", "start", "-N2", "--door-dir", str(doors))
        measured = rounds_of_both(place, count)
        version = measure.rounds(
            {"flux-dat --version": lambda: cpu_seconds(place, "flux-dat", "--version")}, 2 * count
        )
        place.run("flux-dat", "stop", "--now", "--quiet")
        fill(place)
        filled = rounds_of_both(place, count)
        place.run("flux", "cancel", "--all", "--quiet")
    measure.table("status, on Flux", measured)
    measure.ratio(measured, "flux-dat status", "flux jobs -A", 0.1)
    measure.table(f"status of {JOBS} jobs, {DATS} of them DATs", filled)
    measure.ratio(filled, "flux-dat status", "flux jobs -A", 0.1)
    measure.table("CPU time", version, unit="ms", scale=1000)
    cpu = measure.statistics.median(version["flux-dat --version"])
    measure.limit("flux-dat --version", cpu * 1000, 5, "ms of CPU")


if __name__ == "__main__":
    main()
