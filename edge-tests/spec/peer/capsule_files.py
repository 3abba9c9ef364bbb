"""docs/specification/capsules.md: proofs, export files and proof files."""

from .capsule import EPOCH, Capsule, Header, Writers
from .capsule_bodies import EpochChange, check_body
from .codec import Malformed, Reader, Refused, field, u

EXPORT = b"selfsame capsule 1\n"
PROOF = b"selfsame proof 1\n"
MAX_PROOF = 1 << 20
MAX_PROOF_FILE = (1 << 22) + (1 << 21) + (1 << 16)
MAX_EPOCHS = 1 << 16
END, INNER, HEAD, OF_EPOCH = 0, 1, 2, 3
SIGNED, VERIFIED = 1, 2


class Proof:
    """A proof of a record that begins with a signature, verified."""

    def __init__(self, hasher, writers, record, data):
        headers, names, signature = _read_proof(hasher, data)
        for at, pair in enumerate(zip(headers, names[1:])):
            if pair[1] not in pair[0].backpointers:
                raise Refused("BadProof", f"header {at} does not point to the next")
        if record != names[-1] and record not in headers[-1].backpointers:
            raise Refused("BadProof", "it leads elsewhere")
        if signature is None:
            raise Refused("UnknownAnchor")
        writers.check(headers[0], names[0], signature)
        self.path = names
        self.signer = headers[0].writer
        self.last = headers[-1]
        self._headers = headers

    def is_signed_by(self, header):
        """Whether the record with this header, to which the proof leads, is its writer's."""
        chain = self._headers if header.encoded == self._headers[-1].encoded else [*self._headers, header]
        falls = all(before.sequence > after.sequence for before, after in zip(chain, chain[1:]))
        return falls and all(link.writer == self.signer for link in chain)


def _read_proof(hasher, data):
    """Headers, their names and the signature, if there is one."""
    if len(data) > MAX_PROOF:
        raise Refused("TooLarge")
    try:
        reader = Reader(data)
        anchor, count = reader.uint(1), reader.uint(2)
        if anchor not in (SIGNED, VERIFIED) or (anchor == SIGNED and count == 0):
            raise Malformed("its anchor")
        headers = [Header(reader) for _ in range(count)]
        signature = reader.take(64) if anchor == SIGNED else None
        if reader.left:
            raise Malformed("bytes after the proof")
    except Malformed as error:
        raise Refused("BadProof", str(error)) from None
    return headers, [hasher.name(header.encoded) for header in headers], signature


class FileReader(Reader):
    """A reader of a file, in which what is cut short is `BadFile`."""

    def take(self, length):
        if length > self.left:
            raise Refused("BadFile", "it ends early")
        return super().take(length)

    def expect(self, condition, text):
        if not condition:
            raise Refused("BadFile", text)

    def start(self, magic):
        """The capsule, and who may write it after all epoch records at the beginning, with the names of these."""
        self.expect(self.take(len(magic)) == magic, "another file")
        capsule = Capsule(self.bytes())
        writers, names = Writers(capsule), []
        count = self.uint(4)
        if count > MAX_EPOCHS:
            raise Refused("TooLarge")
        for _ in range(count):
            header = Header(self)
            body, signature = self.take(header.body_length), self.take(64)
            check_body(capsule, header, body)
            names.append(capsule.hasher.name(header.encoded))
            writers.apply(header, names[-1], EpochChange(body), signature)
        return capsule, writers, names


class Export:
    """An export file, verified: its capsule, how many records it has, and the names of its holes."""

    def __init__(self, data):
        reader = FileReader(data)
        self.capsule, self._writers, epochs = reader.start(EXPORT)
        self.names, self._awaited, self._epochs = [], {}, set(epochs)
        while (kind := reader.uint(1)) != END:
            self._entry(reader, kind)
        self.count = reader.uint(8)
        self.holes = [reader.take(32) for _ in range(reader.uint(4))]
        reader.expect(self.count == len(self.names), "another number of records")
        reader.expect(self.holes == sorted(self._awaited), "other holes")
        reader.expect(not self._epochs, "an epoch record did not come")
        reader.expect(reader.left == 0, "bytes after the end")

    def _entry(self, reader, kind):
        reader.expect(kind in (INNER, HEAD, OF_EPOCH), "no kind of entry")
        header = Header(reader)
        name = self.capsule.hasher.name(header.encoded)
        is_pointed_to = name in self._awaited
        self._take_turn(reader, name, header)
        if kind == OF_EPOCH:
            reader.expect(name in self._epochs, "an epoch record that was not given first")
            self._epochs.remove(name)
            return
        reader.expect(header.kind != EPOCH and is_pointed_to == (kind == INNER), "another kind")
        signature = reader.take(64) if kind == HEAD else None
        body = reader.take(header.body_length)
        if signature is not None:
            self._writers.check(header, name, signature)
        check_body(self.capsule, header, body)

    def _take_turn(self, reader, name, header):
        """Refuses a record before one that points to it, or behind one with a larger name that could have waited."""
        ready = self._awaited.pop(name, 0)
        reader.expect(all(other < name for other in self.names[ready:]), "out of order")
        self.names.append(name)
        for pointer in header.backpointers:
            self._awaited[pointer] = len(self.names)


def write_export(capsule, epochs, records):
    """The export of records, each header, body and signature or `None`."""
    headers = {capsule.hasher.name(record[0]): Header.whole(record[0]) for record in records}
    stored = dict(zip(headers, records))
    out = EXPORT + field(capsule.encoded) + u(len(epochs), 4)
    out += b"".join(header + body + signature for header, body, signature in epochs)
    waiting, pointed_to = dict(headers), set()
    while waiting:
        blocked = {pointer for header in waiting.values() for pointer in header.backpointers}
        name = min(name for name in waiting if name not in blocked)
        encoded, body, signature = stored[name]
        if waiting[name].kind == EPOCH:
            out += u(OF_EPOCH, 1) + encoded
        elif name in pointed_to:
            out += u(INNER, 1) + encoded + body
        else:
            out += u(HEAD, 1) + encoded + signature + body
        pointed_to.update(waiting.pop(name).backpointers)
    holes = sorted(pointed_to - set(headers))
    return out + u(END, 1) + u(len(records), 8) + u(len(holes), 4) + b"".join(holes)


class ProofFile:
    """A proof file, verified."""

    def __init__(self, data):
        if len(data) > MAX_PROOF_FILE:
            raise Refused("TooLarge")
        reader = FileReader(data)
        self.capsule, writers, _ = reader.start(PROOF)
        header = Header(reader)
        self.record = self.capsule.hasher.name(header.encoded)
        proof = Proof(self.capsule.hasher, writers, self.record, reader.bytes())
        self.is_signed, self.signer, self.path = proof.is_signed_by(header), proof.signer, proof.path
        has_body = reader.uint(1)
        reader.expect(has_body in (0, 1), "neither 0 nor 1")
        self.body = reader.take(header.body_length) if has_body else None
        if has_body:
            check_body(self.capsule, header, self.body)
        reader.expect(reader.left == 0, "bytes after the end")
