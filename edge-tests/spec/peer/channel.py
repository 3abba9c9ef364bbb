"""docs/specification/channel.md: packets and frames."""

import time

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .codec import CLASSES, Malformed, Reader, Refused, field, kdf, u

WINDOW = 2048
PACKETS_PER_KEY = 1 << 20
KEY_LIFETIME_S = 3600
PREVIOUS_KEY_S = 30
MAX_DATA = 16_384
MAX_MESSAGE = 16_384
STREAM_WINDOW = 262_144
ANNOUNCE_STEP = 65_536

REQUEST, RESPONSE, OPEN, DATA, END, RESET, CREDIT, RELAY, PING, PONG, CLOSE = range(1, 12)
ROUTE, MESSAGE, ANSWER = range(12, 15)


class Session:
    """Seals and opens the packets of one session."""

    def __init__(self, keys, is_initiator, index, peer_index, clock=time.monotonic):
        self.id = keys.session_id
        self.is_initiator = is_initiator
        self.index, self.peer_index = index, peer_index
        self._clock = clock
        self._send, self.phase, self._counter = keys.send, 0, 0
        self._rekey_at, self._since = PACKETS_PER_KEY, clock()
        self._receive, self._receive_phase = keys.receive, 0
        self._previous, self._previous_until = None, 0.0
        self._next, self._seen = 0, set()

    def _next_key(self, key):
        return kdf("selfsame/1 next packet key", key + self.id)

    def _data(self, head, by_initiator):
        return head + self.id + (b"\x00" if by_initiator else b"\x01")

    def rekey(self):
        """Changes the key for what is sent from now on."""
        self._send, self.phase = self._next_key(self._send), (self.phase + 1) % 256
        self._rekey_at, self._since = self._counter + PACKETS_PER_KEY, self._clock()

    def seal(self, payload):
        now = self._clock()
        if self._counter >= self._rekey_at or now - self._since >= KEY_LIFETIME_S:
            self.rekey()
        head = bytes([16, self.phase, 0, 0]) + u(self.peer_index, 4) + u(self._counter, 8)
        nonce = bytes(4) + u(self._counter, 8)
        self._counter += 1
        ad = self._data(head, self.is_initiator)
        return head + ChaCha20Poly1305(self._send).encrypt(nonce, payload, ad)

    def open(self, packet):
        if len(packet) < 32 or packet[0] != 16 or packet[2:4] != bytes(2):
            raise Refused("BadFrame")
        if packet[4:8] != u(self.index, 4):
            raise Refused("UnknownSession")
        counter = int.from_bytes(packet[8:16], "little")
        if counter + WINDOW < self._next or counter in self._seen:
            raise Refused("Replayed")
        key, phase = self._key_of(packet[1])
        nonce, ad = bytes(4) + packet[8:16], self._data(packet[:16], not self.is_initiator)
        try:
            payload = ChaCha20Poly1305(key).decrypt(nonce, packet[16:], ad)
        except InvalidTag:
            raise Refused("BadSeal") from None
        if phase == (self._receive_phase + 1) % 256:
            self._previous, self._previous_until = self._receive, self._clock() + PREVIOUS_KEY_S
            self._receive, self._receive_phase = key, phase
        self._mark(counter)
        return payload

    def _key_of(self, phase):
        if phase == self._receive_phase:
            return self._receive, phase
        if phase == (self._receive_phase + 1) % 256:
            return self._next_key(self._receive), phase
        is_previous = phase == (self._receive_phase - 1) % 256 and self._clock() <= self._previous_until
        if is_previous and self._previous is not None:
            return self._previous, phase
        raise Refused("BadSeal")

    def _mark(self, counter):
        self._seen.add(counter)
        if counter >= self._next:
            self._next = counter + 1
            self._seen = {seen for seen in self._seen if seen + WINDOW >= self._next}


def read_frames(payload):
    """The frames of a payload as tuples that begin with their kind."""
    reader, frames = Reader(payload), []
    while reader.left:
        frames.append(_read_frame(reader))
    return frames


def _read_frame(reader):
    kind = reader.uint(1)
    if kind in (REQUEST, RESPONSE):
        return kind, reader.uint(4), reader.bytes()
    if kind == OPEN:
        return (kind, *_read_open(reader))
    if kind == DATA:
        stream, offset, data = reader.uint(4), reader.uint(8), reader.bytes()
        if not 1 <= len(data) <= MAX_DATA:
            raise Malformed("data")
        return kind, stream, offset, data
    if kind in (END, CREDIT):
        return kind, reader.uint(4), reader.uint(8)
    if kind == RESET:
        return kind, reader.uint(4), _read_class(reader)
    if kind == RELAY:
        return kind, reader.take(32), reader.bytes()
    if kind in (PING, PONG):
        return kind, reader.uint(8)
    if kind == CLOSE:
        return kind, _read_class(reader)
    if kind == ROUTE:
        return kind, reader.take(32), reader.take(32), reader.uint(1), reader.bytes()
    if kind == MESSAGE:
        return kind, reader.uint(8), reader.uint(8), reader.take(32), _read_body(reader)
    if kind == ANSWER:
        number, class_ = reader.uint(8), reader.uint(1)
        if class_ != 0 and class_ not in CLASSES:
            raise Malformed("a class")
        return kind, number, class_, _read_body(reader)
    raise Malformed("a frame of another kind")


def _read_open(reader):
    stream, owner_length = reader.uint(4), reader.uint(1)
    if owner_length not in (0, 32):
        raise Malformed("an owner")
    owner, name_length = reader.take(owner_length), reader.uint(1)
    if not 1 <= name_length <= 63:
        raise Malformed("a name")
    try:
        name = reader.take(name_length).decode()
    except UnicodeDecodeError:
        raise Malformed("a name") from None
    head = reader.bytes()
    if len(head) > MAX_DATA:
        raise Malformed("a head")
    return stream, owner, name, head


def _read_body(reader):
    body = reader.bytes()
    if len(body) > MAX_MESSAGE:
        raise Malformed("a message")
    return body


def _read_class(reader):
    value = reader.uint(1)
    if value not in CLASSES:
        raise Malformed("a class")
    return value


def write_frame(kind, *fields):
    """The encoding of what `read_frames` gives."""
    if kind in (REQUEST, RESPONSE):
        number, body = fields
        parts = u(number, 4) + field(body)
    elif kind == OPEN:
        stream, owner, name, head = fields
        name = name.encode()
        parts = u(stream, 4) + u(len(owner), 1) + owner + u(len(name), 1) + name + field(head)
    elif kind == DATA:
        stream, offset, data = fields
        parts = u(stream, 4) + u(offset, 8) + field(data)
    elif kind in (END, CREDIT):
        parts = u(fields[0], 4) + u(fields[1], 8)
    elif kind == RESET:
        parts = u(fields[0], 4) + u(fields[1], 1)
    elif kind == RELAY:
        parts = fields[0] + field(fields[1])
    elif kind in (PING, PONG):
        parts = u(fields[0], 8)
    elif kind == ROUTE:
        to, sender, hops, frame = fields
        parts = to + sender + u(hops, 1) + field(frame)
    elif kind == MESSAGE:
        number, settled, target, body = fields
        parts = u(number, 8) + u(settled, 8) + target + field(body)
    elif kind == ANSWER:
        number, class_, body = fields
        parts = u(number, 8) + u(class_, 1) + field(body)
    else:
        parts = u(fields[0], 1)
    return u(kind, 1) + parts
