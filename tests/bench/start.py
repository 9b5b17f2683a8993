#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""start.py [NODES [ROUNDS]]: `flux-dat start` on a real Flux, against

bare     the same jobspec with nothing of flux-dat in it, submitted by `flux job submit`,
         until its initial program runs
recipe   by hand: flux alloc --bg -NN --conf=FILE, then flux proxy ID flux exec -r all
         chmod ... on the directories of all brokers
"""

import json
import sys

import measure


def end(place, jobid):
    place.run("flux", "cancel", jobid)
    place.run("flux", "job", "wait-event", jobid, "clean")


def bare_jobspec(place, jobid, started):
    """The jobspec of the DAT `jobid`, its command reduced to the broker and a program
    that makes the file `started`."""
    jobspec = json.loads(place.run("flux", "job", "info", jobid, "jobspec"))
    [task] = jobspec["tasks"]
    words = task["command"]
    broker = words.index("broker")
    options = []
    for word in words[broker + 1 :]:
        if not word.startswith("-"):
            break
        if "local-uri" not in word:
            options.append(word)
    task["command"] = ["flux", "broker", *options]
    task["command"] += ["sh", "-c", f"touch {started}; exec sleep inf"]
    return json.dumps(jobspec)


def main():
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    count = int(sys.argv[2]) if len(sys.argv) > 2 else (11 if nodes < 16 else 5)
    with measure.flux_instance(max(4, nodes)) as place:
        doors = place.make("doors")
        home = measure.pathlib.Path(place.env["HOME"])
        started, specfile, conf = home / "started", place.directory / "spec", home / "dat.toml"
        conf.write_text(
            "[access]\nallow-guest-user = true\nallow-root-owner = true\n"
            '[exec]\nimp = "/usr/libexec/flux/flux-imp"\n[tbon]\ntopo = "kary:256"\n'
        )
        # The rundirs' names are made up by the brokers, hence a script with a pattern.
        chmod = place.bin / "open-rundirs"
        chmod.write_text(f"#!/bin/sh\nexec chmod a+x {place.env['TMPDIR']}/flux-*\n")
        chmod.chmod(0o755)
        dat = ["flux-dat", "start", f"-N{nodes}", "--door-dir", str(doors)]

        first = place.run(*dat)
        specfile.write_text(bare_jobspec(place, first, started))
        end(place, first)

        def ours():
            jobids = []
            seconds = measure.timed(lambda: jobids.append(place.run(*dat)))
            end(place, jobids[0])
            return seconds

        def bare():
            jobids = []

            def boot():
                jobids.append(place.run("flux", "job", "submit", str(specfile)))
                measure.wait_until(started.exists, "the bare job's initial program")

            seconds = measure.timed(boot)
            end(place, jobids[0])
            started.unlink()
            return seconds

        def recipe():
            jobids = []

            def by_hand():
                jobids.append(
                    place.run("flux", "alloc", "--bg", f"-N{nodes}", f"--conf={conf}")
                )
                place.run(
                    "flux", "proxy", jobids[0], "flux", "exec", "-r", "all", str(chmod)
                )

            seconds = measure.timed(by_hand)
            end(place, jobids[0])
            return seconds

        measured = measure.rounds({"flux-dat start": ours, "bare": bare, "recipe": recipe}, count)
    measure.table(f"start -N{nodes} to ready, on Flux", measured)
    measure.ratio(measured, "flux-dat start", "bare", 1.10)
    measure.ratio(measured, "flux-dat start", "recipe", 0.90)


if __name__ == "__main__":
    main()
