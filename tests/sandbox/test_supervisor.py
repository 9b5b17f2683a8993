# SPDX-License-Identifier: LGPL-3.0-or-later
"""The supervisor of a DAT between its two brokers: what it survives."""

import contextlib
import os
import pathlib
import pwd
import signal

from tests.lib import fluxwire, wireproxy
from tests.lib.sandbox import GUEST, OWNER, ROOT, SandboxTest, eventually


class SupervisorTest(SandboxTest):
    @contextlib.contextmanager
    def in_the_middle(self, path):
        """Whoever connects to that socket, from now on, has a man in the middle."""
        path = pathlib.Path(path)
        real = path.with_suffix(".real")
        path.rename(real)
        proxy = wireproxy.WireProxy(path, real, None, None, pwd.getpwnam(OWNER) if ROOT else None)
        try:
            yield proxy
        finally:
            # First, since the end of the proxy's connections may be that of the DAT, and
            # its door goes with it.
            real.replace(path)
            proxy.close()

    def another_worker(self, than):
        def found():
            others = set(self.supervisors(worker=True)) - {than}
            return others.pop() if others else None

        return eventually(found, "there is another worker")


class Unreadable(SupervisorTest):
    def test_what_the_worker_cannot_read_is_not_the_end_of_the_dat(self):
        self.start("-N2", "--name", "demo")
        [dat] = self.dats()
        path = fluxwire.socket_path(dat["uri"])
        [worker] = self.supervisors(worker=True)
        with self.in_the_middle(path) as proxy:
            os.kill(worker, signal.SIGKILL)
            worker = self.another_worker(worker)
            eventually(lambda: self.dat("grant", GUEST).status == 0, "it serves")
            clients = proxy.sockets[0::2]
            for client in clients:  # no message begins with that
                with contextlib.suppress(OSError):
                    client.sendall(bytes(8))
            self.another_worker(worker)
            eventually(lambda: self.dat("revoke", GUEST).status == 0, "it serves again")
            # What ends with the proxy is a connection to a broker that died.
            [again] = self.dats()
            self.assertEqual((again["id"], again["state"]), (dat["id"], "ready"))
