"""A session over a path: the handshake, requests, and streams that this side opens."""

import time

from . import channel as ch
from .codec import CLASSES, Refused
from .handshake import COOKIE, PACKET, REJECT, RESPONSE, Initiator
from .transport import Closed

ANSWER_S = 10.0


class Ended(Exception):
    """A stream or session ended before its time; `name` is the class of the reason."""

    def __init__(self, number):
        self.name = CLASSES[number]
        super().__init__(f"ended by the peer: {self.name}")


class TimedOut(Exception):
    """The peer did not answer in time."""


class Stream:
    """A stream that this side opened."""

    def __init__(self, number):
        self.number = number
        self.sent, self.limit = 0, ch.STREAM_WINDOW
        self.received, self.announced = 0, ch.STREAM_WINDOW
        self.data = bytearray()
        self.pieces = {}
        self.length = None
        self.reset = None

    @property
    def is_complete(self):
        return self.length is not None and self.received == self.length


class Connection:
    """What a node has with one peer."""

    def __init__(self, path, identity, target=None, first=b""):
        self.path = path
        self._requests, self._next_request = {}, 0
        self._streams, self._next_stream = {}, 0
        self._pongs, self._closed = set(), None
        self._relayed = {}
        initiator = Initiator(identity, target)
        path.send(initiator.m1)
        self._await_m2(initiator)
        self.peer = initiator.peer
        keys = initiator.keys
        self.session = ch.Session(keys, True, initiator.index, initiator.peer_index)
        path.send(initiator.m3(first))

    def _await_m2(self, initiator):
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for frame in self.path.receive(0.5):
                try:
                    if frame[:1] == bytes([REJECT]):
                        raise RuntimeError(initiator.reject(frame))
                    if frame[:1] == bytes([COOKIE]):
                        initiator.cookie(frame)
                        self.path.send(initiator.m1)
                    elif frame[:1] == bytes([RESPONSE]):
                        initiator.finish(frame)
                        return
                except RuntimeError as error:
                    raise Refused(str(error)) from None
                except Refused as error:
                    # Anybody can send a bad m2; only a sound one of another peer ends the attempt.
                    if error.code == "WrongPeer":
                        raise
        raise TimedOut("no answer to m1")

    def send(self, *frames):
        self.path.send(self.session.seal(b"".join(frames)))

    def pump(self, timeout_s):
        """Takes what comes within the time, at least one frame unless it is over."""
        for frame in self.path.receive(timeout_s):
            if frame[:1] != bytes([PACKET]):
                continue
            try:
                payload = self.session.open(frame)
            except Refused:
                continue
            for one in ch.read_frames(payload):
                self._take(*one)
        if self._closed is not None:
            raise Ended(self._closed)

    def _take(self, kind, *fields):
        if kind == ch.PING:
            self.send(ch.write_frame(ch.PONG, fields[0]))
        elif kind == ch.RELAY and fields[0] in self._relayed:
            self._relayed[fields[0]].append(fields[1])
        elif kind == ch.PONG:
            self._pongs.add(fields[0])
        elif kind == ch.RESPONSE and fields[0] in self._requests:
            self._requests[fields[0]] = fields[1]
        elif kind == ch.REQUEST:
            # This peer is in no ring: class 1.
            self.send(ch.write_frame(ch.RESPONSE, fields[0], b"\x82\x01\x01"))
        elif kind == ch.OPEN:
            self.send(ch.write_frame(ch.RESET, fields[0], 8))
        elif kind == ch.CLOSE:
            self._closed = fields[0]
        elif kind in (ch.DATA, ch.END, ch.RESET, ch.CREDIT):
            stream = self._streams.get(fields[0])
            if stream is not None:
                self._take_stream(stream, kind, *fields[1:])
            elif kind == ch.DATA:
                self.send(ch.write_frame(ch.RESET, fields[0], 5))

    def _take_stream(self, stream, kind, *fields):
        if kind == ch.RESET:
            stream.reset = fields[0]
        elif kind == ch.END:
            stream.length = fields[0]
        elif kind == ch.CREDIT:
            stream.limit = max(stream.limit, fields[0])
        else:
            offset, data = fields
            if offset + len(data) > stream.announced:
                raise Refused("PeerOverCredit")
            stream.pieces[offset] = data
            self._put_in_order(stream)

    def _put_in_order(self, stream):
        for offset in sorted(stream.pieces):
            if offset > stream.received:
                break
            fresh = stream.pieces.pop(offset)[stream.received - offset :]
            stream.data += fresh
            stream.received += len(fresh)
        if stream.received + ch.STREAM_WINDOW - stream.announced >= ch.ANNOUNCE_STEP:
            stream.announced = stream.received + ch.STREAM_WINDOW
            self.send(ch.write_frame(ch.CREDIT, stream.number, stream.announced))

    def _until(self, is_done, timeout_s=ANSWER_S):
        until = time.monotonic() + timeout_s
        while not is_done():
            if time.monotonic() >= until:
                raise TimedOut
            self.pump(0.5)

    def request(self, body, timeout_s=ANSWER_S):
        """Sends a request of the ring and gives the body of its response."""
        number, self._next_request = self._next_request, self._next_request + 1
        self._requests[number] = None
        self.send(ch.write_frame(ch.REQUEST, number, body))
        self._until(lambda: self._requests[number] is not None, timeout_s)
        return self._requests.pop(number)

    def ping(self, token=1):
        """Asks whether the peer is there and waits for a packet of it."""
        self._pongs.discard(token)
        self.send(ch.write_frame(ch.PING, token))
        self.await_pong(token)

    def await_pong(self, token):
        self._until(lambda: token in self._pongs)

    def await_end(self):
        """Takes what comes until the peer ends the session."""
        self._until(lambda: False)

    def call(self, owner, name, head, body=b""):
        """Opens a stream, sends a head and a body, and gives all that comes back."""
        stream = Stream(self._next_stream)
        self._next_stream += 2
        self._streams[stream.number] = stream
        self.send(ch.write_frame(ch.OPEN, stream.number, owner, name, head))
        try:
            self._upload(stream, body)
            self._until(lambda: stream.is_complete or stream.reset is not None, 30)
        finally:
            del self._streams[stream.number]
        if stream.reset is not None:
            raise Ended(stream.reset)
        return bytes(stream.data)

    def _upload(self, stream, body):
        while stream.sent < len(body) and stream.reset is None:
            end = min(stream.sent + ch.MAX_DATA, len(body), stream.limit)
            if end == stream.sent:
                self.pump(0.5)
                continue
            piece = body[stream.sent : end]
            self.send(ch.write_frame(ch.DATA, stream.number, stream.sent, piece))
            stream.sent = end
        if stream.reset is None:
            self.send(ch.write_frame(ch.END, stream.number, stream.sent))

    def relay(self, peer):
        """The path to a leaf that is attached to this member."""
        self._relayed.setdefault(peer, [])
        return RelayPath(self, peer, self._relayed[peer])

    def close(self):
        """Ends the session: nobody's fault."""
        try:
            self.send(ch.write_frame(ch.CLOSE, 8))
        except Closed:
            pass  # A node that was told so closes the path, and the answer to a POST says that.
        self.path.close()


class RelayPath:
    """A path through a member, which passes frames on that it cannot open."""

    def __init__(self, member, peer, came):
        self._member, self._peer, self._came = member, peer, came

    def send(self, *frames):
        self._member.send(*(ch.write_frame(ch.RELAY, self._peer, frame) for frame in frames))

    def receive(self, timeout_s):
        if not self._came:
            self._member.pump(timeout_s)
        frames = list(self._came)
        self._came.clear()
        if b"" in frames:
            raise Closed("the member has no session with the leaf")
        return frames

    def close(self):
        """The path ends with the session that it runs through."""
