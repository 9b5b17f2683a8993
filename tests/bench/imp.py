#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat-imp and flux-imp, pair by pair: exec, memory, run, a large jobspec.

As root, on a machine with flux-security's setuid flux-imp. Both get the same
configuration: in a mount namespace of this benchmark's own, a directory of it is
/etc/flux. FLUX_DAT_BENCH_ROUNDS is the number of rounds (default 100).
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tests/bench")]
from measure import BUILD, limit, ratio, rounds, table  # noqa: E402

from tests.lib.imp import GUEST, OWNER, Munged, gid, uid  # noqa: E402

PEER = "/usr/libexec/flux/flux-imp"
ROUNDS = int(os.environ.get("FLUX_DAT_BENCH_ROUNDS", "100"))
NAMES = ("flux-dat-imp", "flux-imp")


class Bench:
    def __init__(self, place):
        self.place = place
        self.munged = Munged(place / "munge")
        self.spawn = place / "spawn"
        subprocess.run(
            ["g++", "-O2", "-static", "-o", self.spawn, TOP / "tests/bench/spawn.cpp"], check=True
        )
        for source, name, mode in (
            (BUILD / "lib/imp/program/flux-dat-imp-test", "flux-dat-imp", 0o4755),
            (BUILD / "lib/imp/reader/flux-dat-imp-reader", "reader", 0o755),
            (BUILD / "lib/imp/reader/flux-dat-imp-reader-full", "reader-full", 0o755),
        ):
            subprocess.run(["strip", "-o", place / name, source], check=True)
            (place / name).chmod(mode)
        script = place / "empty"
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        self.configure(script)
        self.memory = {}

    def configure(self, script):
        etc = self.place / "etc"
        for name, text in (
            (
                "imp",
                f'[exec]\nallowed-users = ["{OWNER}"]\nallowed-shells = ["/bin/true"]\n'
                f'[run.empty]\nallowed-users = ["{OWNER}"]\npath = "{script}"\n',
            ),
            (
                "security",
                '[sign]\nmax-ttl = 1209600\ndefault-type = "munge"\nallowed-types = ["munge"]\n'
                f'[sign.munge]\nsocket-path = "{self.munged.socket}"\n',
            ),
        ):
            directory = etc / name / "conf.d"
            directory.mkdir(parents=True)
            (directory / "site.toml").write_text(text)
        subprocess.run(["mount", "--bind", etc, "/etc/flux"], check=True)

    def once(self, name, title, words, data):
        program = PEER if name == "flux-imp" else str(self.place / "flux-dat-imp")
        done = subprocess.run(
            [self.spawn, str(uid(OWNER)), str(gid(OWNER)), data, program, *words],
            env={
                "PATH": "/usr/bin:/bin",
                "FLUX_IMP_CONFIG_PATTERN": "/etc/flux/*/conf.d/*.toml",
                "FLUX_DAT_IMP_TEST_READER": str(self.place / "reader"),
            },
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        seconds, kib, status = done.stdout.split()
        if int(status):
            sys.exit(f"{name}: {title}: status {int(status)}")
        self.memory.setdefault((title, name), []).append(int(kib) / 1024)
        return float(seconds)

    def measure(self, title, words, data):
        measured = rounds(
            {name: lambda name=name: self.once(name, title, words, data) for name in NAMES}, ROUNDS
        )
        table(title, measured, "ms", 1000)
        ratio(measured, *NAMES, 1.0)
        memory = {name: self.memory[title, name] for name in NAMES}
        ours, peers = (statistics.median(memory[name]) for name in NAMES)
        limit(f"peak memory {ours:.2f} MiB / {peers:.2f} MiB", ours / peers, 1.0, "")

    def signed(self, name, payload):
        path = self.place / name
        path.write_text(json.dumps({"J": self.munged.sign(GUEST, payload)}))
        return path

    def all(self):
        self.measure("exec of /bin/true", ["exec", "/bin/true", "1"], self.signed("small", b"{}"))
        large = self.signed("large", b"x" * (1 << 20))
        self.measure("exec with a jobspec of 1 MiB", ["exec", "/bin/true", "1"], large)
        self.measure("run of an empty script", ["run", "empty"], "/dev/null")


def main():
    if os.geteuid() != 0 or not os.path.exists(PEER):
        sys.exit(f"needs root, and a setuid {PEER}")
    if "FLUX_DAT_BENCH_NAMESPACE" not in os.environ:
        os.environ["FLUX_DAT_BENCH_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    place = pathlib.Path(tempfile.mkdtemp(prefix="imb-", dir="/tmp"))
    place.chmod(0o755)
    bench = None
    try:
        bench = Bench(place)
        bench.all()
    finally:
        if bench:
            bench.munged.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
