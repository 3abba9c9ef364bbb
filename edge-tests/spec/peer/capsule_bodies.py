"""docs/specification/capsules.md: bodies, trees of sub-records, seals, epoch records and grants."""

import hmac

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .capsule import TREE
from .codec import Malformed, Reader, Refused, decode, expect, is_bytes, is_list, is_uint, kdf, mac, u
from .handshake import XWing

FAN_OUT = 4
MAX_SUBRECORDS = 1 << 16
PREAMBLE = 48
TAG = 16
NONCE = bytes(12)


def epoch_key(owner_seed, capsule, epoch):
    return kdf("selfsame/1 capsule epoch key", owner_seed + capsule + u(epoch, 4))


class RecordKey:
    """The key of a record, and its preamble."""

    def __init__(self, epoch_key, salt, capsule, epoch, writer, sequence):
        place = salt + capsule + u(epoch, 4) + u(writer, 2) + u(sequence, 8)
        wide = blake3(place, key=epoch_key).digest(length=64)
        self._key = wide[:32]
        self.preamble = salt + wide[32:]

    def seal(self, content):
        return self.preamble + _seal(self._key, content)

    def open(self, sealed):
        return _open(self._key, sealed)

    def seal_part(self, index, content):
        return _seal(mac(self._key, u(index, 4)), content)

    def open_part(self, index, sealed):
        return _open(mac(self._key, u(index, 4)), sealed)


def recall(epoch_key, preamble, *place):
    """The key of a stored record, whose commitment is compared first."""
    key = RecordKey(epoch_key, preamble[:16], *place)
    if not hmac.compare_digest(key.preamble, preamble):
        raise Refused("BadSeal", "its commitment")
    return key


def open_body(epoch_key, body, *place):
    if len(body) < PREAMBLE + TAG:
        raise Refused("BadSeal", "it ends early")
    return recall(epoch_key, body[:PREAMBLE], *place).open(body[PREAMBLE:])


def _seal(key, content):
    return ChaCha20Poly1305(key).encrypt(NONCE, content, None)


def _open(key, sealed):
    try:
        return ChaCha20Poly1305(key).decrypt(NONCE, sealed, None)
    except (InvalidTag, ValueError):
        raise Refused("BadSeal", "it does not open") from None


class TreeBody:
    """The body of a record of sub-records."""

    def __init__(self, body, is_sealed):
        try:
            reader = Reader(body)
            count = reader.uint(4)
            expect(0 < count <= MAX_SUBRECORDS, "the number of sub-records")
            self.preamble = reader.take(PREAMBLE if is_sealed else 0)
            lengths = [reader.uint(4) for _ in range(count)]
            self.subrecords = [reader.take(length) for length in lengths]
            expect(reader.left == 0, "bytes after the last sub-record")
        except Malformed as error:
            raise Refused("BadTree", str(error)) from None

    def levels(self, hasher):
        """The hashes of each level of the tree, the leaves first."""
        levels = [[hasher.hash("leaf", part) for part in self.subrecords]]
        while len(levels[-1]) > 1:
            below = levels[-1]
            groups = [below[at : at + FAN_OUT] for at in range(0, len(below), FAN_OUT)]
            levels.append([_group_hash(hasher, group) for group in groups])
        return levels

    def hash(self, hasher):
        (top,) = self.levels(hasher)[-1]
        return tree_hash(hasher, len(self.subrecords), self.preamble, top)


def encode_tree(preamble, subrecords):
    lengths = b"".join(u(len(part), 4) for part in subrecords)
    return u(len(subrecords), 4) + preamble + lengths + b"".join(subrecords)


def _group_hash(hasher, group):
    return group[0] if len(group) == 1 else hasher.hash("node", b"".join(group))


def tree_hash(hasher, count, preamble, top):
    return hasher.hash("root", u(count, 4) + preamble + top)


def path_of(levels, index, most=255):
    """The other hashes of the groups that a sub-record is in, from the lowest level up."""
    path = []
    for level in levels[:most]:
        first = index - index % FAN_OUT
        group = level[first : first + FAN_OUT]
        path += [hash for at, hash in enumerate(group, first) if at != index]
        index //= FAN_OUT
    return path


def climb(hasher, count, index, leaf, path, most=255):
    """The hash to which a path leads, so many levels up or to the top of the tree."""
    if not index < count <= MAX_SUBRECORDS:
        raise Refused("BadTree", "there is no such place")
    width, rest = count, list(path)
    for _ in range(most):
        if width == 1:
            break
        first = index - index % FAN_OUT
        others = min(FAN_OUT, width - first) - 1
        if len(rest) < others:
            raise Refused("BadTree", "the path is too short")
        group, rest = rest[:others], rest[others:]
        group.insert(index - first, leaf)
        leaf = _group_hash(hasher, group)
        index, width = index // FAN_OUT, -(-width // FAN_OUT)
    if rest:
        raise Refused("BadTree", "the path is too long")
    return leaf


def check_part(hasher, body_hash, count, preamble, index, leaf, path):
    """Refuses a path that does not lead from a sub-record's hash to the body hash."""
    top = climb(hasher, count, index, leaf, path)
    if tree_hash(hasher, count, preamble, top) != body_hash:
        raise Refused("BadTree", "it leads elsewhere")


def check_body(capsule, header, body):
    """Refuses a body that is not the header's."""
    if header.kind == TREE:
        hash = TreeBody(body, capsule.is_sealed).hash(capsule.hasher)
    else:
        hash = capsule.hasher.hash("body", body)
    if len(body) != header.body_length or hash != header.body_hash:
        raise Refused("BadBody")


class EpochChange:
    """The body of an epoch record."""

    def __init__(self, body):
        try:
            fields = decode(body)
            expect(is_list(fields, 4) and is_uint(fields[0]) and fields[0] == 1)
            expect(is_list(fields[1], 0, 64) and all(map(_is_added, fields[1])))
            expect(is_list(fields[2], 0, 64) and all(map(_is_revoked, fields[2])))
            expect(is_list(fields[3], 0, 512) and all(map(_is_grant, fields[3])))
        except Malformed as error:
            raise Refused("BadEpoch", str(error)) from None
        _, self.added, self.revoked, self.grants = fields


def _is_added(pair):
    return is_list(pair, 2) and is_uint(pair[0], 0xFFFF) and is_bytes(pair[1], 32)


def _is_revoked(pair):
    is_shape = is_list(pair, 2) and is_uint(pair[0], 0xFFFF) and is_list(pair[1], 0, 16)
    return is_shape and all(is_bytes(head, 32) for head in pair[1])


def _is_grant(grant):
    return is_list(grant, 3) and all(map(is_bytes, grant, (32, 1120, 48)))


class ReaderKeys:
    """The keys of a reader."""

    def __init__(self, seed):
        self._pair = XWing(kdf("selfsame/1 capsule reader seed", seed))
        self.public = self._pair.public
        self.id = kdf("selfsame/1 capsule reader", self.public)

    def open(self, capsule, epoch, grant):
        """The key of an epoch that a grant holds."""
        _, ciphertext, sealed = grant
        try:
            secret = self._pair.decapsulate(ciphertext)
        except Refused as error:
            raise Refused("BadSeal", str(error)) from None
        return _open(kdf("selfsame/1 capsule grant", secret + capsule + u(epoch, 4) + self.id), sealed)
