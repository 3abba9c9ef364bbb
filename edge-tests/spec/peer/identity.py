"""docs/specification/identity.md: networks, keys, ids, node records, grants."""

import ipaddress
import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from .codec import (
    Malformed,
    Refused,
    decode,
    encode,
    expect,
    is_bytes,
    is_list,
    is_text,
    is_uint,
    labelled_hash,
)

CLOCK_SKEW_MS = 60_000
MAX_RECORD_LIFE_MS = 24 * 3_600_000
MAX_SEQUENCE_LEAD_MS = 24 * 3_600_000
MAX_RECORD_BYTES = 4804
MAX_GRANT_BYTES = 640
MAX_REVOKED = 8
SCHEMES = ("ws", "wss", "http", "https", "tcp", "udp", "webrtc")
INSIDE = ("localhost", "local", "internal", "lan", "intranet", "home.arpa")


def network_id(name, mode=b"open", authority=b""):
    return labelled_hash("selfsame/1 network id", name.encode(), mode, authority, b"\x01")


def peer_id(public, net):
    return labelled_hash("selfsame/1 peer id", public, net)


def verify(public, label, statement, signature):
    """Whether `signature` is of `statement` under the label."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, labelled_hash(label, statement))
        return True
    except InvalidSignature:
        return False


class Identity:
    """A signing key in a network."""

    def __init__(self, seed, net, label="selfsame/1 peer signing seed", boot=bytes(16)):
        self.net = net
        self.boot = boot
        self.signing_seed = labelled_hash(label, seed, net)
        self._key = Ed25519PrivateKey.from_private_bytes(self.signing_seed)
        self.public = self._key.public_key().public_bytes_raw()
        self.id = peer_id(self.public, net)

    @classmethod
    def of_owner(cls, seed, net):
        return cls(seed, net, "selfsame/1 owner signing seed")

    def sign(self, label, statement):
        return self._key.sign(labelled_hash(label, statement))


def signed(identity, label, statement):
    """A signed statement out of the values of its CDDL."""
    data = encode(statement)
    return encode([data, identity.sign(label, data)])


def open_signed(data, most):
    """Statement bytes, statement and signature of a signed statement; nothing is verified."""
    try:
        expect(len(data) <= most)
        outer = decode(data)
        expect(is_list(outer, 2) and type(outer[0]) is bytes and is_bytes(outer[1], 64))
        statement = decode(outer[0])
    except Malformed as error:
        raise Refused("BadRecord", str(error)) from None
    return outer[0], statement, outer[1]


class NodeRecord:
    """What a node says about itself, verified."""

    def __init__(self, data, net, now_ms):
        raw, statement, signature = open_signed(data, MAX_RECORD_BYTES)
        if not _is_record(statement):
            raise Refused("BadRecord")
        _, record_net, self.public, role, self.addresses, self.domain, *rest = statement
        self.boot, self.sequence, self.signed_at, self.expiry, _ = rest
        if record_net != net:
            raise Refused("WrongNetwork")
        is_member = role == 1
        if any(address_problem(address, True, is_member) for address in self.addresses):
            raise Refused("BadRecord", "an address that is none")
        if not 0 < self.expiry - self.signed_at <= MAX_RECORD_LIFE_MS:
            raise Refused("BadRecord", "its times")
        if self.sequence > self.signed_at + MAX_SEQUENCE_LEAD_MS:
            raise Refused("BadRecord", "its sequence")
        if not verify(self.public, "selfsame/1 node record", raw, signature):
            raise Refused("BadSignature")
        if self.signed_at > now_ms + CLOCK_SKEW_MS:
            raise Refused("WrongClock")
        if now_ms >= self.expiry:
            raise Refused("StaleRecord")
        self.is_member = role == 1
        self.id = peer_id(self.public, net)
        self.encoded = data


def _is_record(s):
    return (
        is_list(s, 11)
        and is_uint(s[0])
        and s[0] == 2
        and is_bytes(s[1], 32)
        and is_bytes(s[2], 32)
        and is_uint(s[3], 1)
        and is_list(s[4], 0, 8)
        and all(is_text(address, 1, 512) for address in s[4])
        and is_text(s[5], 0, 64)
        and is_bytes(s[6], 16)
        and is_uint(s[7])
        and is_uint(s[8])
        and is_uint(s[9])
        and s[10] is None  # the network is open
    )


def sign_record(identity, is_member, addresses, domain, sequence, expiry_ms, signed_at_ms=None):
    statement = [
        2,
        identity.net,
        identity.public,
        int(is_member),
        addresses,
        domain,
        identity.boot,
        sequence,
        sequence if signed_at_ms is None else signed_at_ms,
        expiry_ms,
        None,
    ]
    return signed(identity, "selfsame/1 node record", statement)


def is_name(name):
    """Whether a service may have this name."""
    return re.fullmatch(r"[a-z0-9.-]{1,63}", name) is not None


def check_grant(data, net, now_ms):
    """Owner, name and peer of a grant that is valid now."""
    raw, statement, signature = open_signed(data, MAX_GRANT_BYTES)
    if not _is_grant(statement):
        raise Refused("BadRecord")
    _, grant_net, owner, name, peer, issued, expiry, _ = statement
    if grant_net != net:
        raise Refused("WrongNetwork")
    if not is_name(name):
        raise Refused("BadRecord", "its name")
    if now_ms >= expiry or issued > now_ms + CLOCK_SKEW_MS:
        raise Refused("StaleRecord")
    if not verify(owner, "selfsame/1 grant", raw, signature):
        raise Refused("BadSignature")
    return owner, name, peer


def _is_grant(s):
    return (
        is_list(s, 8)
        and is_uint(s[0])
        and s[0] == 1
        and is_bytes(s[1], 32)
        and is_bytes(s[2], 32)
        and is_text(s[3], 1, 63)
        and is_bytes(s[4], 32)
        and is_uint(s[5])
        and is_uint(s[6])
        and is_list(s[7], 0, MAX_REVOKED)
        and all(is_bytes(peer, 32) for peer in s[7])
    )


# Where peers are accepted: at no path, at /.mesh behind any other, and at one name behind that.
MESH_PATH = r"/?|(/[!-.0->@-~/]*)?/\.mesh(/[A-Za-z0-9_-][A-Za-z0-9._-]*)?"


def address_problem(address, allow_private, is_member=False):
    """The code that says why an address must not be dialled, or `None`."""
    if not is_member and re.fullmatch(r"relay:[0-9a-f]{64}", address):
        return None
    if not re.fullmatch(r"[!-~]{1,512}", address) or "\\" in address or "#" in address:
        return "BadAddress"
    scheme, separator, rest = address.partition("://")
    if not separator or scheme not in SCHEMES:
        return "BadAddress"
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    path = rest[len(authority) :]
    if scheme != "webrtc" and not re.fullmatch(MESH_PATH, path):
        return "BadAddress"
    match = re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(?::([0-9]+))?", authority)
    if not match or int(match[2] or 0) > 65535:
        return "BadAddress"
    try:
        inside = _is_inside(match[1])
    except ValueError:
        return "BadAddress"
    return "ForbiddenAddress" if inside and not allow_private else None


def _is_inside(host):
    if host.startswith("["):
        return _is_inside_v6(ipaddress.IPv6Address(host[1:-1]))
    host = host.lower().removesuffix(".")
    if not host:
        raise ValueError("no host")
    last = host.rsplit(".", 1)[-1]
    if last.startswith("0x") or last.isdigit() or not last:
        return _is_inside_v4(_read_v4(host))
    return "." not in host or any(host == name or host.endswith("." + name) for name in INSIDE)


def _read_v4(host):
    """An IPv4 address in any notation of the URL standard."""
    parts = host.split(".")
    if len(parts) > 4:
        raise ValueError("too many numbers")
    numbers = [_read_number(part) for part in parts]
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= 256 ** (5 - len(numbers)):
        raise ValueError("too large a number")
    return ipaddress.IPv4Address(
        sum(number << (24 - 8 * at) for at, number in enumerate(numbers[:-1])) + numbers[-1]
    )


def _read_number(part):
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    if len(part) > 1 and part.startswith("0"):
        return int(part, 8)
    return int(part)


V4_INSIDE = [
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "224.0.0.0/3",
    )
]


def _is_inside_v4(address):
    return any(address in net for net in V4_INSIDE)


def _is_inside_v6(address):
    value = int(address)
    low = ipaddress.IPv4Address(value & 0xFFFFFFFF)
    if value >> 64 == 0:
        mapped = value >> 32 in (0xFFFF, 0xFFFF0000)
        return not mapped or _is_inside_v4(low)
    if value >> 96 == 0x0064FF9B:
        return (value >> 32) & ((1 << 64) - 1) != 0 or _is_inside_v4(low)
    if value >> 112 == 0x2002:
        return _is_inside_v4(ipaddress.IPv4Address((value >> 80) & 0xFFFFFFFF))
    first = value >> 112
    return first & 0xFE00 == 0xFC00 or first & 0xFF80 == 0xFE80 or first & 0xFF00 == 0xFF00
