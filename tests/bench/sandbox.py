#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""sandbox.py [NODES [ROUNDS]]: `flux-dat start -NN` to ready in a sandbox of that many
ranks, and the peak memory of the command, of the DAT's supervisor, and of the sandbox."""

import sys
import time

import measure


def main():
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with measure.sandbox(nodes) as place:
        engine = set(measure.processes(place))
        doors = place.make("doors")
        dat = ["flux-dat", "start", f"-N{nodes}", "--door-dir", str(doors)]
        peaks, child = {}, "sandbox, the DAT's instance"

        def peak(what, value):
            peaks[what] = max(peaks.get(what, 0.0), value)

        def start():
            began = time.monotonic()
            command = place.popen(*dat, stdout=measure.subprocess.DEVNULL)
            while command.poll() is None:
                peak("command", measure.peak_memory(command.pid))
                time.sleep(0.001)
            seconds = time.monotonic() - began
            if command.returncode:
                raise SystemExit(f"flux-dat start: exit {command.returncode}")
            sums = {"supervisor": 0.0, "sandbox": 0.0, child: 0.0}
            for pid, words in measure.processes(place).items():
                if pid in engine:
                    what = "sandbox"
                elif "supervise" in words.split()[1:2]:
                    what = "supervisor"
                else:
                    what = child
                sums[what] += measure.peak_memory(pid)
            for what, value in sums.items():
                peak(what, value)
            place.run("flux-dat", "stop", "--now", "--quiet")
            return seconds

        name = f"start -N{nodes}"
        measured = measure.rounds({name: start}, count)
    measure.table(f"sandbox of {nodes} ranks, start to ready", measured)
    measure.limit(name, measure.statistics.median(measured[name]), 1.0, "s")
    print("\npeak memory (VmHWM, all processes of a kind added up)")
    for what, at_most in (("command", 16), ("supervisor", 16), ("sandbox", 64)):
        measure.limit(what, peaks[what], at_most, "MiB")
    print(f"  {child}: {peaks[child]:.1f} MiB")


if __name__ == "__main__":
    main()
