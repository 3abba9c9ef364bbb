"""docs/specification/capsules.md: hashes, metadata, headers, signatures and who may write."""

import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from .codec import Malformed, Reader, Refused, decode, encode, expect, is_bytes, is_list, is_text, is_uint, kdf
from .codec import mac as keyed_hash
from .codec import u

MAX_METADATA = 2048
MAX_BACKPOINTERS = 32
MAX_BODY = 1 << 20
MAX_WRITERS = 1024
BLAKE3, SHA256 = 1, 2
PLAIN, TREE, EPOCH = 1, 2, 3
FIELDS = 51
OWNER = 0


def sha256(data):
    return hashlib.sha256(data).digest()


def capsule_name(kind, metadata):
    label = "selfsame/1 capsule"
    return kdf(label, metadata) if kind == BLAKE3 else sha256(sha256(label.encode()) + metadata)


class Hasher:
    """The hashes of one capsule."""

    def __init__(self, kind, capsule):
        self.kind = kind
        self.capsule = capsule

    def _under(self, key, data):
        return keyed_hash(key, data) if self.kind == BLAKE3 else sha256(key + data)

    def hash(self, what, data):
        label = f"selfsame/1 capsule {what}"
        if self.kind == BLAKE3:
            return keyed_hash(kdf(label, self.capsule), data)
        return sha256(sha256(sha256(label.encode()) + self.capsule) + data)

    def name(self, header):
        """The name of the record with this header."""
        return self._under(self.hash("header", header[1 : 1 + FIELDS]), header[1 + FIELDS :])


def key_pair(seed):
    """The private key of an owner, a writer or a server, and its public key."""
    key = Ed25519PrivateKey.from_private_bytes(kdf("selfsame/1 capsule signing seed", seed))
    return key, key.public_key().public_bytes_raw()


def sign(key, label, statement):
    return key.sign(kdf(label, statement))


def verify(public, label, statement, signature):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, kdf(label, statement))
        return True
    except InvalidSignature:
        return False


class Capsule:
    """Signed metadata, verified."""

    def __init__(self, data):
        if len(data) > MAX_METADATA:
            raise Refused("TooLarge")
        try:
            outer = decode(data)
            expect(is_list(outer, 2) and type(outer[0]) is bytes and is_bytes(outer[1], 64))
            statement, signature = outer
            fields = decode(statement)
            expect(_is_metadata(fields))
        except Malformed as error:
            raise Refused("BadMetadata", str(error)) from None
        _, self.hash, readers, self.created_ms, self.salt, self.owner, self.writers, self.description = fields
        self.name = capsule_name(self.hash, statement)
        if not verify(self.owner, "selfsame/1 capsule metadata", self.name, signature):
            raise Refused("BadSignature")
        self.is_sealed = readers == 1
        self.hasher = Hasher(self.hash, self.name)
        self.encoded = data


def _is_metadata(s):
    return (
        is_list(s, 8)
        and is_uint(s[0])
        and s[0] == 1
        and is_uint(s[1])
        and s[1] in (BLAKE3, SHA256)
        and is_uint(s[2], 1)
        and is_uint(s[3])
        and is_bytes(s[4], 16)
        and is_bytes(s[5], 32)
        and is_list(s[6], 0, 16)
        and all(is_bytes(key, 32) for key in s[6])
        and is_text(s[7], 0, 1024)
        and len({s[5], *s[6]}) == 1 + len(s[6])
    )


def sign_metadata(owner_seed, kind, readers, created_ms, salt, writers, description):
    key, public = key_pair(owner_seed)
    statement = encode([1, kind, readers, created_ms, salt, public, writers, description])
    return encode([statement, sign(key, "selfsame/1 capsule metadata", capsule_name(kind, statement))])


class Header:
    """The header of a record, read from where a reader stands."""

    def __init__(self, reader):
        start = reader.at
        try:
            count = reader.uint(1)
            if count > MAX_BACKPOINTERS:
                raise Malformed("too many backpointers")
            self.kind, self.writer, self.epoch = reader.uint(1), reader.uint(2), reader.uint(4)
            self.sequence, self.body_length = reader.uint(8), reader.uint(4)
            self.body_hash = reader.take(32)
            self.backpointers = [reader.take(32) for _ in range(count)]
        except Malformed as error:
            raise Refused("BadHeader", str(error)) from None
        if self.kind not in (PLAIN, TREE, EPOCH):
            raise Refused("BadHeader", "its kind")
        if self.body_length > MAX_BODY:
            raise Refused("TooLarge")
        self.encoded = reader.data[start : reader.at]

    @classmethod
    def whole(cls, data):
        """The header that these bytes are."""
        reader = Reader(data)
        header = cls(reader)
        if reader.left:
            raise Refused("BadHeader", "bytes after the header")
        return header


def encode_header(kind, writer, epoch, sequence, body_length, body_hash, backpointers):
    fields = u(kind, 1) + u(writer, 2) + u(epoch, 4) + u(sequence, 8) + u(body_length, 4) + body_hash
    return u(len(backpointers), 1) + fields + b"".join(backpointers)


class Writers:
    """Who may write a capsule, as its metadata and the epoch records in force say."""

    def __init__(self, capsule):
        keys = [capsule.owner, *capsule.writers]
        self.keys = dict(enumerate(keys))
        self.since = {number: 0 for number in self.keys}
        self.revoked = set()
        self.epoch = 0
        self.last = None

    def check(self, header, name, signature):
        """Refuses a signature of a record that does not count."""
        number = header.writer
        if number in self.revoked:
            raise Refused("RevokedWriter")
        if number not in self.keys or header.epoch < self.since[number]:
            raise Refused("NotAWriter")
        if not verify(self.keys[number], "selfsame/1 capsule record", name, signature):
            raise Refused("BadSignature")

    def apply(self, header, name, change, signature):
        """Puts an epoch record in force, given its decoded body."""
        self.check(header, name, signature)
        if not (self._follows(header) and self._permits(header, change)):
            raise Refused("BadEpoch")
        for number, key in change.added:
            self.keys[number] = key
            self.since[number] = header.epoch
        self.revoked.update(number for number, _ in change.revoked)
        self.epoch = header.epoch
        self.last = name

    def _follows(self, header):
        is_next = header.epoch in (self.epoch, self.epoch + 1)
        is_behind = self.last is None or header.backpointers[:1] == [self.last]
        return header.kind == EPOCH and header.writer == OWNER and is_next and is_behind

    def _permits(self, header, change):
        numbers = [number for number, _ in change.added]
        keys = [key for _, key in change.added]
        return (
            len(set(numbers)) == len(numbers)
            and len(set(keys)) == len(keys)
            and len(self.keys) + len(keys) <= MAX_WRITERS
            and not set(numbers) & set(self.keys)
            and not set(keys) & set(self.keys.values())
            and (not change.revoked or header.epoch != self.epoch)
            and all(self._may_leave(header, *revoked) for revoked in change.revoked)
        )

    def _may_leave(self, header, number, heads):
        is_writer = number in self.keys and number not in self.revoked
        return number != OWNER and is_writer and set(heads) <= set(header.backpointers)
