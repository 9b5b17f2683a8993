#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""contain.py REPORT LIMIT COMMAND...

Runs a test program so that nothing outlives it. As a subreaper (prctl(2)) it inherits
whatever the program started, daemons included. When the program has ended, what is
still there gets GRACE seconds to go by itself; what stays is named in the report and
killed. A program that is not done after LIMIT seconds hangs: it is told to abort (so
that Python shows where it was), then killed with all that it started.

REPORT is a JSON file: {"status": wait status as in subprocess, "hung": bool,
"left": ["PID command line", ...]}.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
# Seconds for daemons that were told to end and are on their way.
GRACE = float(os.environ.get("FLUX_DAT_TEST_GRACE", "10"))
ABORT_GRACE = 5.0  # seconds between SIGABRT and SIGKILL
POLL = 0.02  # seconds between looks


def descendants():
    """{pid: command line} of all living processes below this one."""
    parent = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            parent[int(entry)] = int(fields[1])
    below = {os.getpid()}
    grown = True
    while grown:
        new = {pid for pid, ppid in parent.items() if ppid in below} - below
        below |= new
        grown = bool(new)
    below.discard(os.getpid())
    result = {}
    for pid in sorted(below):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().rstrip(b"\0").split(b"\0")
        except OSError:
            continue
        result[pid] = b" ".join(words).decode(errors="replace")
    return result


def reap():
    """Collects the children that have ended, so that none stays a zombie."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def kill_all():
    while True:
        victims = descendants()
        reap()
        if not victims:
            return
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                return  # setuid and we are not root: named in the report all the same
        time.sleep(POLL)


def main():
    report, limit, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def end(signum, _frame):
        kill_all()
        os._exit(128 + signum)

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, end)

    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    hung = False
    try:
        program.wait(limit)
    except subprocess.TimeoutExpired:
        hung = True
        os.killpg(program.pid, signal.SIGABRT)
        try:
            program.wait(ABORT_GRACE)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    deadline = time.monotonic() + (0 if hung else GRACE)
    while True:
        reap()
        left = descendants()
        if not left or time.monotonic() >= deadline:
            break
        time.sleep(POLL)
    kill_all()
    with open(report, "w", encoding="utf-8") as file:
        json.dump(
            {
                "status": program.returncode,
                "hung": hung,
                "left": [f"{pid} {words}" for pid, words in left.items()],
            },
            file,
        )


if __name__ == "__main__":
    main()
