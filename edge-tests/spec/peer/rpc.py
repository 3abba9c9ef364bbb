"""docs/specification/rpc.md: tickets and datagrams of the encrypted RPC."""

import hmac
import time

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .codec import Malformed, Reader, Refused, decode, expect, is_bytes, is_list, is_text, kdf, mac, u

WELL_KNOWN = "/.well-known/selfsame-rpc"
WITH_TICKET, IN_SESSION, RESPONSE, REJECTION, FORWARD, FEEDBACK, REDIRECT, DROP = range(0x60, 0x68)
BOUND, OF_MANY, CONTROL = 4, 8, 16
ANSWER, ACKNOWLEDGEMENT, REFUSAL, BIND = range(4)
NEW_TICKET, ENDPOINT = 4, 16
ACKNOWLEDGE, CANCEL, PROBE = range(3)
BASES = {ANSWER: 0, ACKNOWLEDGEMENT: 1 << 16, BIND: 1 << 17, REFUSAL: 3 << 16}
CONTROL_BASE = 1 << 16
FIRST_PACKET = CANCEL_PACKET = 0xFFFF
TICKET_LENGTH, GRANT_LENGTH, TAG_LENGTH, ENDPOINT_LENGTH = 92, 128, 16, 18
MAX_MESSAGE, MAX_BITMAP = 16 << 20, 32


def ticket_key(secret, network, service):
    """The key that the replicas of a service share."""
    name, at, authority = network.partition("@")
    names = b"@" + bytes.fromhex(authority) if at else name.encode(), service.encode()
    return kdf("selfsame/1 rpc service ticket key", secret + u(len(names[0]), 1) + names[0] + names[1])


def next_secret(secret):
    """The secret that the next ticket key follows from."""
    return hmac.digest(secret, b"selfsame/1 rpc next ticket secret", "sha256")


def key_id(key):
    return mac(key, b"selfsame/1 rpc ticket key id")[:4]


def address_key(key):
    return mac(key, b"selfsame/1 rpc address tag")


def address_tag(key, address):
    return mac(address_key(key), address)[:8]


def _seal(key, nonce, data, associated):
    return ChaCha20Poly1305(key).encrypt(nonce, data, associated)


def _open(key, nonce, data, associated):
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, data, associated)
    except (InvalidTag, ValueError):
        raise Refused("BadSeal", "it does not open") from None


def _ticket_secrets(key, nonce):
    both = blake3(b"selfsame/1 rpc ticket" + nonce, key=key).digest(length=64)
    return both[:32], both[32:]


def issue_ticket(key, nonce, content):
    """A ticket and its psk."""
    sealing, psk = _ticket_secrets(key, nonce)
    return key_id(key) + nonce + _seal(sealing, bytes(12), content, key_id(key)), psk


def open_ticket(key, ticket):
    """Caller, expiry, time of issue and address tag of a ticket."""
    expect(len(ticket) == TICKET_LENGTH)
    sealing, _ = _ticket_secrets(key, ticket[4:28])
    content = Reader(_open(sealing, bytes(12), ticket[28:], ticket[:4]))
    return content.take(32), content.uint(4), content.uint(4), content.take(8)


class Ticket:
    """What a client holds: a ticket, its secret, and the counters that it has used."""

    def __init__(self, grant, clock=time.monotonic):
        expect(len(grant) == GRANT_LENGTH)
        self.grant = grant
        self.ticket, self.psk = grant[:92], grant[92:124]
        self.life_s = int.from_bytes(grant[124:], "little")
        self.session = self.ticket[4:12]
        self.request_key = mac(self.psk, b"selfsame/1 rpc request key")
        self._clock, self._came, self._counter = clock, clock(), 0

    @property
    def age_ms(self):
        return int((self._clock() - self._came) * 1000)

    def next_counter(self):
        self._counter += 1
        return self._counter

    def response_key(self, epoch):
        return mac(self.psk, b"selfsame/1 rpc response key" + epoch)

    def renewed(self, epoch, counter, given):
        """The ticket that came with the answer to a request under this one."""
        nonce = mac(self.psk, b"selfsame/1 rpc renewal nonce" + epoch + u(counter, 8))[:24]
        return Ticket(given[:4] + nonce + given[4:], self._clock)


def read_ticket_document(data):
    """The grant and the preferred address of what a service answers to a request for a ticket."""
    document = decode(data)
    expect(is_list(document, 3) and document[0] == 2)
    grant, addresses = document[1:]
    expect(is_bytes(grant, GRANT_LENGTH) and is_list(addresses, 1, 4))
    expect(all(is_text(address, 1, 512) for address in addresses))
    return grant, addresses[0]


def seal_request(ticket, counter, payload, flags=0, packet=None, epoch=b"", with_ticket=True):
    """A request, with its ticket or in its session; `epoch` is that of a bound one."""
    kind = WITH_TICKET if with_ticket else IN_SESSION
    flags |= BOUND if epoch else 0
    head = bytes([kind, flags]) + (ticket.ticket if with_ticket else ticket.session) + u(counter, 8)
    number = (packet or 0) + (CONTROL_BASE if flags & CONTROL else 0)
    sealed = _seal(ticket.request_key, u(counter, 8) + u(number, 4), payload, bytes([kind, flags]) + epoch)
    return head + (b"" if packet is None else u(packet, 2)) + sealed


def request_head(ticket, timeout_ms, older=0):
    return u(ticket.age_ms, 4) + u(timeout_ms, 4) + u(older, 2)


def packet_head(offset, total, cookie=b""):
    return u(offset, 4) + u(total, 4) + cookie


class Response:
    """A response that opened, taken apart."""

    def __init__(self, data, tickets):
        """`tickets` gives the ticket and the counter of a call, or None."""
        reader = Reader(data)
        self.kind, flags = reader.uint(1), reader.uint(1)
        expect(self.kind == RESPONSE and flags < 32)
        self.outcome, self.is_of_many = flags & 3, bool(flags & OF_MANY)
        self.epoch, self.call = reader.take(8), reader.uint(4)
        has_packet = self.is_of_many or self.outcome in (ACKNOWLEDGEMENT, BIND)
        self.packet = reader.uint(2) if has_packet else None
        found = tickets(self.call)
        if found is None:
            raise Refused("UnknownCall")
        ticket, self.counter = found
        nonce = u(self.counter, 8) + u((self.packet or 0) + BASES[self.outcome], 4)
        sealed = reader.take(reader.left)
        self._read(Reader(_open(ticket.response_key(self.epoch), nonce, sealed, data[:2])), flags, ticket)

    def _read(self, payload, flags, ticket):
        self.endpoint = payload.take(ENDPOINT_LENGTH) if flags & ENDPOINT else None
        self.ticket = ticket.renewed(self.epoch, self.counter, payload.take(104)) if flags & NEW_TICKET else None
        if self.is_of_many and self.outcome == ANSWER:
            self.offset, self.total = payload.uint(4), payload.uint(4)
            expect(self.total <= MAX_MESSAGE)
            self.cookie = payload.take(8) if self.packet == 0 else None
        self.body = payload.take(payload.left)
        if self.outcome == REFUSAL:
            expect(len(self.body) == 2)
            self.code = int.from_bytes(self.body, "little")
        if self.outcome == ACKNOWLEDGEMENT:
            self.arrived = read_acknowledgement(self.body)


def write_acknowledgement(arrived):
    """Says which packets, a set of their numbers, have arrived."""
    following = next(number for number in range(1 << 16) if number not in arrived)
    bits = 0
    for number in arrived:
        if following < number <= following + 8 * MAX_BITMAP:
            bits |= 1 << (number - following - 1)
    return u(following, 2) + u(bits, (bits.bit_length() + 7) // 8)


def read_acknowledgement(data):
    """The first packet that has not arrived, and those after it that have."""
    reader = Reader(data)
    following = reader.uint(2)
    expect(reader.left <= MAX_BITMAP)
    bits = int.from_bytes(reader.take(reader.left), "little")
    return following, {following + 1 + at for at in range(bits.bit_length()) if bits >> at & 1}


def read_rejection(data):
    """Reason, call and tag of the request."""
    expect(len(data) == 6 + TAG_LENGTH and data[0] == REJECTION and data[1] in (1, 2))
    return data[1], int.from_bytes(data[2:6], "little"), data[6:]


def _read_unsigned(kind, length, data):
    """What follows the kind: call, tag and the rest."""
    expect(len(data) == 5 + TAG_LENGTH + length and data[0] == kind)
    return int.from_bytes(data[1:5], "little"), data[5 : 5 + TAG_LENGTH], data[5 + TAG_LENGTH :]


def read_redirect(data):
    """Call, tag of the request and the server's endpoint."""
    return _read_unsigned(REDIRECT, ENDPOINT_LENGTH, data)


def read_drop(data):
    """Call, tag of the request and a code."""
    call, tag, code = _read_unsigned(DROP, 2, data)
    return call, tag, int.from_bytes(code, "little")


def router_key(secret):
    return kdf("selfsame/1 rpc router key", secret)


def forward(key, client, server, request):
    """What a router passes on."""
    both = client + server
    proof = mac(key, b"selfsame/1 rpc forward" + both + request[-TAG_LENGTH:])[:16]
    return bytes([FORWARD]) + both + proof + request


def feedback(key, tag, running):
    """What a replica tells a router."""
    data = tag + u(running, 2)
    return bytes([FEEDBACK]) + data + mac(key, b"selfsame/1 rpc feedback" + data)[:16]


class Assembly:
    """A message that comes in packets."""

    def __init__(self):
        self._pieces, self.total, self.arrived = {}, None, set()

    def take(self, packet, offset, total, data):
        if self.total not in (None, total) or offset + len(data) > total:
            raise Malformed("packets of different messages")
        self.total = total
        self.arrived.add(packet)
        self._pieces[offset] = data

    @property
    def message(self):
        """The message, or None unless it is complete."""
        whole = b""
        for offset in sorted(self._pieces):
            if offset != len(whole):
                return None
            whole += self._pieces[offset]
        return whole if len(whole) == self.total else None
