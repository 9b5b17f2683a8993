# SPDX-License-Identifier: LGPL-3.0-or-later
"""A small, synchronous client of a Flux broker's local socket, for tests.

It shares no code with lib/flux, so that a mistake in one of the two shows. RFC 3
(messages), RFC 6 (remote procedure calls), RFC 39 (mechanism "none").

    with Flux(uri) as flux:
        flux.rpc("attr.get", {"name": "size"})["value"]
        jobid = flux.submit(jobspec(["hostname"]))
        for answer in flux.stream("job-info.eventlog-watch",
                                  {"id": jobid, "path": "eventlog", "flags": 0}):
            print(answer["event"])

Every wait ends after `timeout` seconds with TimeoutError: a test that hangs says
where. A service's error is a FluxError with its errno and text.
"""

import base64
import collections
import errno
import json
import os
import socket
import struct
import time

ANY = 0xFFFFFFFF  # nodeid: whichever broker has the service
MAGIC = b"\x12\x00\xee\xff"
HEADER = struct.Struct(">BBBBIIII")

REQUEST, RESPONSE, EVENT, CONTROL = 1, 2, 4, 8
TOPIC, PAYLOAD, NORESPONSE, ROUTE, UPSTREAM, PRIVATE, STREAMING = (
    0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40)
OWNER, USER, LOCAL, ADMIN = 1, 2, 4, 8  # role bits, RFC 12


class FluxError(OSError):
    """An error that a service answered, or the broker's refusal of the connection."""

    def __init__(self, errnum, text=""):
        super().__init__(errnum, text or os.strerror(errnum))

    @property
    def text(self):
        return self.strerror


class Message:
    """One message. aux1: nodeid, errnum or sequence; aux2: matchtag."""

    def __init__(self, type=REQUEST, topic=None, payload=None, flags=0,
                 userid=0xFFFFFFFF, rolemask=0, aux1=ANY, aux2=0, routes=None):
        self.type, self.topic, self.payload, self.flags = type, topic, payload, flags
        self.userid, self.rolemask, self.aux1, self.aux2 = userid, rolemask, aux1, aux2
        self.routes = routes  # list, newest hop first; None: no delimiter either

    @property
    def json(self):
        text = (self.payload or b"").rstrip(b"\0")
        return json.loads(text) if text else None

    @property
    def text(self):
        return (self.payload or b"").rstrip(b"\0").decode()


def _part(data):
    if len(data) < 255:
        return bytes([len(data)]) + data
    return b"\xff" + struct.pack(">I", len(data)) + data


def encode(message):
    """The whole frame."""
    flags = message.flags & ~(TOPIC | PAYLOAD | ROUTE)
    out = b""
    if message.routes is not None:
        flags |= ROUTE
        out += b"".join(_part(route.encode() + b"\0") for route in message.routes)
        out += _part(b"")
    if message.topic is not None:
        flags |= TOPIC
        out += _part(message.topic.encode() + b"\0")
    if message.payload is not None:
        flags |= PAYLOAD
        out += _part(message.payload)
    out += _part(HEADER.pack(0x8E, 1, message.type, flags, message.userid,
                             message.rolemask, message.aux1, message.aux2))
    return MAGIC + struct.pack(">I", len(out)) + out


def decode(data):
    """A message from what follows magic and length."""
    parts = []
    while data:
        size, data = data[0], data[1:]
        if size == 255:
            size, data = struct.unpack(">I", data[:4])[0], data[4:]
        parts.append(data[:size])
        data = data[size:]
    _, _, type, flags, userid, rolemask, aux1, aux2 = HEADER.unpack(parts.pop())
    message = Message(type, flags=flags, userid=userid, rolemask=rolemask, aux1=aux1,
                      aux2=aux2)
    if flags & ROUTE:
        end = parts.index(b"")
        message.routes = [part[:-1].decode() for part in parts[:end]]
        parts = parts[end + 1:]
    if flags & TOPIC:
        message.topic = parts.pop(0)[:-1].decode()
    if flags & PAYLOAD:
        message.payload = parts.pop(0)
    assert not parts, "parts that no flag announces"
    return message


def socket_path(uri):
    """The path of a local or ssh URI (tests run on one machine)."""
    scheme, _, rest = uri.partition("://")
    if scheme == "local":
        return rest
    if scheme == "ssh":
        return "/" + rest.partition("/")[2]
    raise ValueError(f"unknown scheme: {uri}")


class Stream:
    """The answers to a streaming request; iterate, or take them with next()."""

    def __init__(self, flux, matchtag):
        self._flux, self.matchtag, self._ended = flux, matchtag, False

    def next(self, timeout=None):
        """The next answer, None at the regular end; FluxError if it ended in error."""
        if self._ended:
            return None
        message = self._flux._wait(self.matchtag, timeout)
        if message.aux1 == 0:
            return message.json
        self._ended = True
        if message.aux1 == errno.ENODATA:
            return None
        raise FluxError(message.aux1, message.text)

    def cancel(self, topic):
        self._flux.send(topic, {"matchtag": self.matchtag})

    def __iter__(self):
        while (answer := self.next()) is not None:
            yield answer


class Flux:
    def __init__(self, uri=None, timeout=30):
        self.uri = uri or os.environ["FLUX_URI"]
        self.timeout = timeout
        self._inbox = collections.defaultdict(collections.deque)  # by matchtag
        self._requests = collections.deque()
        self._events = collections.deque()
        self._next_matchtag = 1
        self._buffer = b""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(timeout)
            self.sock.connect(socket_path(self.uri))
            welcome = self.sock.recv(1)
            if not welcome:
                raise FluxError(errno.ECONNRESET, "closed before the welcome")
            if welcome[0] != 0:
                raise FluxError(welcome[0])
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    # Requests of ours.

    def rpc(self, topic, payload=None, nodeid=ANY, timeout=None, upstream=False):
        """One request, one answer: its JSON, or None where it has no payload."""
        matchtag = self._request(topic, payload, nodeid, UPSTREAM if upstream else 0)
        message = self._wait(matchtag, timeout)
        if message.aux1 != 0:
            raise FluxError(message.aux1, message.text)
        return message.json

    def stream(self, topic, payload=None, nodeid=ANY):
        return Stream(self, self._request(topic, payload, nodeid, STREAMING))

    def send(self, topic, payload=None, nodeid=ANY):
        """A request that wants no answer."""
        self._request(topic, payload, nodeid, NORESPONSE)

    def send_message(self, message):
        self.sock.sendall(encode(message))

    # Requests of others, to a service of ours.

    def serve(self, name):
        self.rpc("service.add", {"service": name})

    def next_request(self, timeout=None):
        deadline = time.monotonic() + (timeout or self.timeout)
        while not self._requests:
            self._receive(deadline, "a request")
        return self._requests.popleft()

    def respond(self, request, payload=None, errnum=0, text=None):
        data = text if text is not None else None if payload is None else json.dumps(payload)
        self.send_message(Message(
            RESPONSE, request.topic, None if data is None else data.encode() + b"\0",
            request.flags & STREAMING, aux1=errnum, aux2=request.aux2,
            routes=request.routes))

    # Events.

    def subscribe(self, topic):
        self.rpc("event.subscribe", {"topic": topic})

    def next_event(self, timeout=None):
        deadline = time.monotonic() + (timeout or self.timeout)
        while not self._events:
            self._receive(deadline, "an event")
        return self._events.popleft()

    # Jobs, as far as most tests need them.

    def submit(self, spec, urgency=16, flags=0, userid=None):
        return self.rpc("job-ingest.submit", {"J": sign_none(spec, userid),
                                              "urgency": urgency, "flags": flags})["id"]

    def events(self, jobid, path="eventlog", flags=0):
        """The events of a job's eventlog, until its end."""
        for answer in self.stream("job-info.eventlog-watch",
                                  {"id": jobid, "path": path, "flags": flags}):
            yield json.loads(answer["event"])

    def wait_event(self, jobid, name, path="eventlog"):
        """Waits for an event of that name, and returns it."""
        seen = []
        stream = self.stream("job-info.eventlog-watch",
                             {"id": jobid, "path": path, "flags": 1})
        for answer in stream:
            event = json.loads(answer["event"])
            seen.append(event)
            if event["name"] == name:
                stream.cancel("job-info.eventlog-watch-cancel")
                return event
        raise AssertionError(f"no event {name} in {seen}")

    # Inside.

    def _request(self, topic, payload, nodeid, flags):
        matchtag = 0
        if not flags & NORESPONSE:
            matchtag = self._next_matchtag
            self._next_matchtag += 1
        data = None if payload is None else json.dumps(payload).encode() + b"\0"
        self.send_message(Message(REQUEST, topic, data, flags, aux1=nodeid,
                                  aux2=matchtag, routes=[]))
        return matchtag

    def _wait(self, matchtag, timeout):
        deadline = time.monotonic() + (timeout or self.timeout)
        while not self._inbox[matchtag]:
            self._receive(deadline, f"the answer to request {matchtag}")
        message = self._inbox[matchtag].popleft()
        if not self._inbox[matchtag]:
            del self._inbox[matchtag]
        return message

    def _receive(self, deadline, what):
        """Reads one message and puts it where it belongs."""
        while True:
            if len(self._buffer) >= 8:
                assert self._buffer[:4] == MAGIC, self._buffer[:4]
                size = struct.unpack(">I", self._buffer[4:8])[0]
                if len(self._buffer) >= 8 + size:
                    message = decode(self._buffer[8:8 + size])
                    self._buffer = self._buffer[8 + size:]
                    break
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{what} did not come")
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(65536)
            except TimeoutError:
                raise TimeoutError(f"{what} did not come") from None
            if not data:
                raise FluxError(errno.ECONNRESET, f"closed while waiting for {what}")
            self._buffer += data
        if message.type == RESPONSE:
            self._inbox[message.aux2].append(message)
        elif message.type == REQUEST:
            self._requests.append(message)
        elif message.type == EVENT:
            self._events.append(message)


def sign_none(spec, userid=None):
    """A jobspec as RFC 39 signs it with mechanism "none"."""
    userid = os.getuid() if userid is None else userid
    header = f"version\0i1\0mechanism\0snone\0userid\0i{userid}\0".encode()
    payload = spec if isinstance(spec, bytes) else json.dumps(spec).encode()
    return ".".join([base64.b64encode(header).decode(),
                     base64.b64encode(payload).decode(), "none"])


def jobspec(command, nodes=None, slots=1, cores=1, exclusive=False, duration=0,
            cwd=None, env=None, **system):
    """A jobspec V1 (RFC 25). With `nodes`, `slots` a node, else `slots` in all."""
    resources = {"type": "slot", "count": slots, "label": "task",
                 "with": [{"type": "core", "count": cores}]}
    if nodes is not None:
        resources = {"type": "node", "count": nodes, "with": [resources]}
        if exclusive:
            resources["exclusive"] = True
    return {
        "version": 1,
        "resources": [resources],
        "tasks": [{"command": list(command), "slot": "task",
                   "count": {"per_slot": 1}}],
        "attributes": {"system": {
            "duration": duration, "cwd": cwd or os.getcwd(),
            "environment": dict(os.environ if env is None else env), **system}},
    }


F58_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def f58(jobid):
    """A job id as people see it (RFC 19)."""
    digits = ""
    while True:
        jobid, digit = divmod(jobid, 58)
        digits = F58_ALPHABET[digit] + digits
        if jobid == 0:
            return "ƒ" + digits


def parse_jobid(text):
    if text[0] not in "ƒf":
        return int(text, 0)
    value = 0
    for digit in text[1:]:
        value = value * 58 + F58_ALPHABET.index(digit)
    return value
