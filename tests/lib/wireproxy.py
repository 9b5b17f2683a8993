# SPDX-License-Identifier: LGPL-3.0-or-later
"""A man in the middle of a Flux connection, to let something happen at a chosen moment.

It listens on a socket of its own, passes on what it gets to the broker's and back, and
counts the messages that come from the broker. Before it passes on the one with number
`moment` (1 is the first), it calls `act`; if that gives False, it cuts the connection
instead. So "at any moment of a command" is a loop over the moments, and not a sleep.
Or it counts those that have some bytes in them, so that a test knows what has come.
"""

import ctypes
import os
import platform
import socket
import struct
import threading

MAGIC = b"\x12\x00\xee\xff"


class WireProxy:
    def __init__(self, path, target, moment, act, user=None):
        """`user` is a pwd entry: whom the broker shall see, where we are root. `moment`
        may be a function, too: of the first message for which it is true."""
        self.target, self.moment, self.act, self.user = target, moment, act, user
        self.messages = 0
        self.awaited = None  # bytes of a message
        self.passed = 0  # how many with them in it have been passed on
        self.sent = b""  # what the client has said, all of it
        self.acted = False
        self.problem = None
        self.sockets = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        os.chmod(path, 0o777)
        self.listener.listen()
        self.uri = f"local://{path}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # closed
            broker = socket.socket(socket.AF_UNIX)
            try:
                self.connect(broker)
            except OSError as error:
                self.problem = error
                client.close()
                continue
            self.sockets += [client, broker]
            for pump in (self.pump_up, self.pump_down):
                threading.Thread(target=pump, args=(client, broker), daemon=True).start()

    def connect(self, broker):
        # The kernel tells the broker the credentials of the moment of connecting.
        if self.user:
            self.become(self.user.pw_uid, self.user.pw_gid)
        try:
            broker.connect(str(self.target))
        finally:
            if self.user:
                self.become(0, 0)

    @staticmethod
    def become(uid, gid):
        """This thread alone, which os.seteuid() does not: the test goes on meanwhile."""
        numbers = {"x86_64": (117, 119), "aarch64": (147, 149)}
        setresuid, setresgid = numbers[platform.machine()]
        syscall = ctypes.CDLL(None, use_errno=True).syscall
        calls = [(setresgid, gid), (setresuid, uid)]
        for number, wanted in calls if uid else reversed(calls):
            if syscall(number, -1, wanted, -1) != 0:
                raise OSError(ctypes.get_errno(), "cannot become another user")

    def pump_up(self, client, broker):
        try:
            while data := client.recv(1 << 16):
                broker.sendall(data)
                self.sent += data
            broker.shutdown(socket.SHUT_WR)
        except OSError:
            self.cut(client, broker)

    def pump_down(self, client, broker):
        try:
            client.sendall(self.exactly(broker, 1))  # the welcome
            while True:
                head = self.exactly(broker, 8)
                assert head[:4] == MAGIC, head
                frame = head + self.exactly(broker, struct.unpack(">I", head[4:])[0])
                self.messages += 1
                if self.messages == self.moment or (
                    callable(self.moment) and not self.acted and self.moment(frame)
                ):
                    self.acted = True
                    if self.act() is False:
                        break
                client.sendall(frame)
                if self.awaited and self.awaited in frame:
                    self.passed += 1
        except (OSError, EOFError):
            pass
        self.cut(client, broker)

    @staticmethod
    def exactly(source, size):
        data = b""
        while len(data) < size:
            more = source.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    @staticmethod
    def cut(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.cut(self.listener)
        self.listener.close()
        for one in self.sockets:
            self.cut(one)
            one.close()
