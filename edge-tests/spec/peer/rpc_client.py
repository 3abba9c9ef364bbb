"""A client of the encrypted RPC that has one call under way at a time."""

import contextlib
import http.client
import socket
import time
from urllib.parse import urlsplit

from . import rpc
from .codec import Refused

MAX_DATAGRAM = 1200
FIRST_RESEND_S, SLOW_RESEND_S = 0.3, 1.0
MAX_SEALED = 4
HEARD_S = 5.0
NEVER = float("-inf")
FIRST_WINDOW = 10


class Failed(Exception):
    """A call that ended without an answer; `code` is a refusal's number, or None."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


class Rejected(Exception):
    """A request that a replica rejected; `reason` says why."""

    def __init__(self, reason):
        super().__init__(f"rejected: {reason}")
        self.reason = reason


class Udp:
    """Datagrams to one replica."""

    largest = MAX_DATAGRAM

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect((host, int(port)))
        self.sent = 0

    def send(self, datagram):
        self.sent += 1
        with contextlib.suppress(ConnectionRefusedError):  # That of an earlier one: it is lost.
            self._socket.send(datagram)

    def receive(self, timeout_s):
        """A datagram, or None if none comes within the time."""
        self._socket.settimeout(max(timeout_s, 0.001))
        try:
            return self._socket.recv(65_536)
        except (TimeoutError, ConnectionRefusedError):
            return None

    def close(self):
        self._socket.close()


class Post:
    """Each datagram is the body of a POST, and its response that of the answer."""

    largest = rpc.MAX_MESSAGE

    def __init__(self, url):
        self._url, self._came, self._pause_s, self.sent = urlsplit(url), [], 0.0, 0

    def send(self, datagram):
        self.sent += 1
        connection = http.client.HTTPConnection(self._url.hostname, self._url.port, timeout=10)
        headers = {"content-type": "application/octet-stream"}
        connection.request("POST", self._url.path or "/", datagram, headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 200 and answer.headers["content-type"] == "application/octet-stream":
            self._came.append(body)
        self._pause_s = float(answer.headers.get("retry-after", 0))
        connection.close()

    def receive(self, timeout_s):
        """What the last POST gave; else None, after the time and the pause that the server asked for."""
        if self._came:
            return self._came.pop(0)
        time.sleep(max(timeout_s, self._pause_s, 0))
        return None

    def close(self):
        """Each request has closed its own connection."""


def path_to(address):
    return Post(address) if address.startswith(("http://", "https://")) else Udp(address)


class RpcClient:
    """Calls a service; `fetch_ticket` gives a document from a session of the mesh."""

    def __init__(self, fetch_ticket):
        self._fetch_ticket = fetch_ticket
        self._path = None
        self.tickets_fetched = self.tickets_renewed = self.attempts = self.acknowledgements = 0
        self.take_first_ticket()

    def take_first_ticket(self):
        grant, address = rpc.read_ticket_document(self._fetch_ticket())
        self.tickets_fetched += 1
        self.ticket, self._epoch, self._heard = rpc.Ticket(grant), None, NEVER
        if self._path is not None:
            self._path.close()
        self._path = path_to(address)

    @property
    def datagrams_sent(self):
        return self._path.sent

    def call(self, message, idempotent=True, timeout_s=10.0):
        """The answer to a message; a call that is not idempotent is carried out by one life of one session."""
        until, is_bound = time.monotonic() + timeout_s, not idempotent
        for _ in range(MAX_SEALED):
            is_once = False
            try:
                if is_bound and time.monotonic() - self._heard > HEARD_S:
                    Attempt(self, b"", until).probe()
                is_once = not idempotent
                self.attempts += 1
                self.last = Attempt(self, message, until)
                answer = self.last.run(self._epoch if is_bound else b"")
                if answer is not None:
                    return answer
                is_bound = True
            except Rejected as rejection:
                self._forget(rejection.reason)
                is_bound = not idempotent
            if is_once:
                break
        raise Failed("OutcomeUnknown")

    def _forget(self, reason):
        if reason == 1:
            self.take_first_ticket()
        else:
            self._epoch, self._heard = None, NEVER

    def pretend_session(self):
        """Makes the next request one of a session, or of a life of it, that no replica has."""
        self._epoch, self._heard = bytes(8), time.monotonic()

    def repeat_last(self):
        """The answers to the last request, of one datagram, sent twice more."""
        return [self.last.again() for _ in range(2)]

    def close(self):
        self._path.close()


# What an attempt ends with that must be sealed again for another epoch.
BIND = object()


class Attempt:
    """One sealed request and what comes back."""

    def __init__(self, client, message, until):
        self._client, self._message, self._until = client, message, until
        self._path, self._ticket = client._path, client.ticket
        self._counter = self._ticket.next_counter()
        self._assembly, self._cookie, self._controls = rpc.Assembly(), None, 0
        self._upload = None

    def probe(self):
        """Learns the epoch of the replica."""
        payload = bytes([rpc.PROBE])
        self._exchange(self._seal(payload, rpc.CONTROL, self._next_control()))

    def run(self, epoch):
        """The answer, or None if the request must be sealed again for another epoch."""
        timeout_ms = max(int((self._until - time.monotonic()) * 1000), 1)
        head = rpc.request_head(self._ticket, timeout_ms)
        datagram = self._seal(head + self._message, 0, None, epoch)
        if len(datagram) <= self._path.largest:
            self._datagram = datagram
            return self._exchange(datagram)
        first = self._path.largest - len(datagram) + len(self._message) - 10
        early = self._message[:first]
        payload = head + rpc.packet_head(0, 0) + early
        self._upload = Upload(self, epoch, self._message, len(early))
        return self._exchange(self._seal(payload, rpc.OF_MANY, rpc.FIRST_PACKET, epoch))

    def again(self):
        """The outcome of the same bytes."""
        return self._exchange(self._datagram)

    def _seal(self, payload, flags, packet, epoch=b""):
        known = self._client._epoch is not None
        return rpc.seal_request(self._ticket, self._counter, payload, flags, packet, epoch, not known)

    def send_packet(self, payload, packet, epoch):
        self._path.send(self._seal(payload, rpc.OF_MANY, packet, epoch))

    def _next_control(self):
        self._controls += 1
        return self._controls - 1

    def _exchange(self, datagram):
        """Sends a datagram until the call has an outcome."""
        pause, resend = FIRST_RESEND_S, 0.0
        while time.monotonic() < self._until:
            if time.monotonic() >= resend:
                if self._upload is None or not self._upload.is_begun:
                    self._path.send(datagram)
                else:
                    self._upload.lost()
                resend, pause = time.monotonic() + pause, min(2 * pause, SLOW_RESEND_S)
            came = self._path.receive(resend - time.monotonic())
            outcome = None if came is None else self._take(came, datagram)
            if outcome is not None:
                return None if outcome is BIND else outcome
        raise Failed("TimedOut")

    def _take(self, came, datagram):
        try:
            if came[:1] == bytes([rpc.REJECTION]):
                self._rejection(came, datagram)
            find = lambda call: (self._ticket, self._counter) if call == self._counter & 0xFFFFFFFF else None
            return self._outcome(rpc.Response(came, find))
        except Refused:
            return None  # Anybody can send what does not open.

    def _rejection(self, came, datagram):
        reason, call, tag = rpc.read_rejection(came)
        if call == self._counter & 0xFFFFFFFF and tag == datagram[-rpc.TAG_LENGTH :]:
            raise Rejected(reason)

    def _outcome(self, response):
        self._client._epoch, self._client._heard = response.epoch, time.monotonic()
        if response.outcome == rpc.REFUSAL:
            raise Failed(f"refused with {response.code:#06x}", response.code)
        if response.outcome == rpc.BIND:
            return BIND
        if response.outcome == rpc.ACKNOWLEDGEMENT:
            self._client.acknowledgements += 1
            if self._upload is not None:
                self._upload.acknowledged(*response.arrived)
            return None
        if response.ticket is not None and self._ticket is self._client.ticket:
            self._client.ticket = response.ticket
            self._client.tickets_renewed += 1
        return self._packet(response) if response.is_of_many else response.body

    def _packet(self, response):
        self._cookie = response.cookie or self._cookie
        self._assembly.take(response.packet, response.offset, response.total, response.body)
        if self._cookie is not None:
            what = rpc.write_acknowledgement(self._assembly.arrived)
            payload = bytes([rpc.ACKNOWLEDGE]) + self._cookie + what
            self._path.send(self._seal(payload, rpc.CONTROL, self._next_control()))
        return self._assembly.message


class Upload:
    """The packets of a long request after the first one."""

    def __init__(self, attempt, epoch, message, start):
        self._attempt, self._epoch, self._message, self._start = attempt, epoch, message, start
        self._size = 1000
        self._count = -(-(len(message) - start) // self._size)
        self._arrived, self._next, self._window = set(), 1, FIRST_WINDOW
        self.is_begun = False

    def acknowledged(self, following, beyond):
        self.is_begun = True
        self._arrived |= set(range(1, following)) | beyond
        self._window += 1
        self._fill()

    def lost(self):
        """Nothing was acknowledged in time: begins again after what has arrived."""
        self._window = max(self._window // 2, 1)
        self._next = 1
        self._fill()

    def _fill(self):
        flying = sum(number not in self._arrived for number in range(1, self._next))
        while self._next <= self._count and flying < self._window:
            if self._next not in self._arrived:
                self._send(self._next)
                flying += 1
            self._next += 1

    def _send(self, number):
        offset = self._start + (number - 1) * self._size
        piece = self._message[offset : offset + self._size]
        head = rpc.packet_head(offset, len(self._message))
        self._attempt.send_packet(head + piece, number, self._epoch)
