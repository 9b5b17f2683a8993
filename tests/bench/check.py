#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""check.py [RANKS [ROUNDS]]: `flux-dat check` of all nodes, on a real Flux of RANKS
brokers (default 64) on this machine, against

exec     flux exec -r all true

plus its local part, which is `flux-dat check` where the constraint leaves no node. On one
machine all of the nodes' flux-dat share its CPUs, where each would have a node's of its
own; so what a node does is measured, too.
"""

import subprocess
import sys

import measure


class Checked:
    def __init__(self, place):
        self.place = place
        self.doors = place.make("doors")

    def check(self, *arguments):
        """Whatever it finds on this machine: only that it has looked counts."""
        process = self.place.popen(
            "flux-dat", "check", "--json", "--door-dir", str(self.doors), "--open", *arguments,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        out, err = process.communicate(timeout=measure.PATIENCE)
        if '"id":"configuration"' not in out:
            raise SystemExit(f"flux-dat check: exit {process.returncode}\n{out}{err}")

    def all_nodes(self):
        return measure.timed(self.check)

    def no_node(self):
        return measure.timed(lambda: self.check("--requires", "-rank:0-100000"))

    def by_exec(self):
        return measure.timed(lambda: self.place.run("flux", "exec", "-r", "all", "true"))

    def on_a_node(self):
        question = (
            '{"version":1,"imp":"/usr/libexec/flux/flux-imp","munge":true,"door":true,'
            f'"open":true,"door_id":9300000000000000000,"door_dir":"{self.doors}"}}'
        )
        return measure.timed(lambda: self.place.run("flux-dat", "check-node", question))


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 11
    with measure.flux_instance(ranks) as place:
        checked = Checked(place)
        measured = measure.rounds(
            {
                "flux-dat check": checked.all_nodes,
                "flux exec -r all true": checked.by_exec,
                "local part": checked.no_node,
                "flux-dat check-node": checked.on_a_node,
            },
            count,
        )
    local = measure.statistics.median(measured["local part"])
    measured["check less its local part"] = [
        both - local for both in measured["flux-dat check"]
    ]
    measure.table(f"check of {ranks} nodes, on Flux", measured)
    measure.ratio(measured, "check less its local part", "flux exec -r all true", 1.5)


if __name__ == "__main__":
    main()
