"""docs/specification/capsules.md: what servers and writers sign, and how replicas compare sets."""

from math import isqrt

from .capsule import sign, verify
from .codec import Malformed, Reader, Refused, expect, kdf, mac, u

WORD = (1 << 64) - 1
MAX_SYMBOLS = 1 << 16
MAX_ELEMENTS = 1 << 30
HOUR_MS = 3_600_000


def stored_leaf(capsule, operations):
    """The leaf of what one request stored, each an operation's number and the record's name."""
    return kdf("selfsame/1 capsule stored", capsule + b"".join(operations))


def acknowledge(key, public, time_ms, leaves):
    """The acknowledgements that a server signs together, one for each leaf."""
    paths, level, places = [[] for _ in leaves], list(leaves), list(range(len(leaves)))
    while len(level) > 1:
        for path, place in zip(paths, places):
            if place ^ 1 < len(level):
                path.append((place & 1, level[place ^ 1]))
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [mac(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        places = [place // 2 for place in places]
    head = u(time_ms, 8) + public
    head += sign(key, "selfsame/1 capsule acknowledgement", public + u(time_ms, 8) + level[0])
    return [head + _encode_path(path) for path in paths]


def _encode_path(path):
    sides = sum(is_left << at for at, (is_left, _) in enumerate(path))
    return u(sides, 1) + u(len(path), 1) + b"".join(hash for _, hash in path)


def check_acknowledgement(data, capsule, operations):
    """The time and the server of an acknowledgement of exactly these operations."""
    reader = Reader(data)
    time_ms, server, signature = reader.uint(8), reader.take(32), reader.take(64)
    sides, count = reader.uint(1), reader.uint(1)
    expect(count <= 8 and sides >> count == 0)
    hashes = [reader.take(32) for _ in range(count)]
    expect(reader.left == 0)
    hash = stored_leaf(capsule, operations)
    for at, beside in enumerate(hashes):
        hash = mac(beside, hash) if sides >> at & 1 else mac(hash, beside)
    if not verify(server, "selfsame/1 capsule acknowledgement", server + u(time_ms, 8) + hash, signature):
        raise Refused("BadSignature")
    return time_ms, server


def answer_fresh(key, public, capsule, nonce, writer, time_ms, newest, heads):
    heads = sorted(heads)
    said = newest, *heads
    statement = capsule + public + nonce + writer + u(time_ms, 8) + b"".join(said)
    signature = sign(key, "selfsame/1 capsule freshness", statement)
    return u(time_ms, 8) + public + newest + u(len(heads), 2) + b"".join(heads) + signature


def check_fresh(data, capsule, nonce, writer):
    """The newest record of a writer and the heads that an answer to QueryFresh names."""
    reader = Reader(data)
    time_ms, server, newest, count = reader.uint(8), reader.take(32), reader.take(32), reader.uint(2)
    expect(count <= 1024)
    heads = [reader.take(32) for _ in range(count)]
    signature = reader.take(64)
    expect(reader.left == 0)
    statement = capsule + server + nonce + writer + u(time_ms, 8) + newest + b"".join(heads)
    if not verify(server, "selfsame/1 capsule freshness", statement, signature):
        raise Refused("BadSignature")
    return newest, heads


def introduce(key, writer, server, capsule, session, time_ms):
    statement = server + capsule + session + u(time_ms, 8)
    return u(writer, 2) + u(time_ms, 8) + sign(key, "selfsame/1 capsule session", statement)


def check_introduction(data, public, server, capsule, session, now_ms):
    """The writer of an introduction, given the writer's key."""
    reader = Reader(data)
    writer, time_ms, signature = reader.uint(2), reader.uint(8), reader.take(64)
    if abs(time_ms - now_ms) > HOUR_MS:
        raise Refused("Replayed")
    statement = server + capsule + session + u(time_ms, 8)
    if not verify(public, "selfsame/1 capsule session", statement, signature):
        raise Refused("BadSignature")
    return writer


def fingerprint(elements):
    hashes = [kdf("selfsame/1 capsule element", element) for element in elements]
    total = sum(int.from_bytes(hash, "little") for hash in hashes) % (1 << 256)
    return kdf("selfsame/1 capsule set", u(len(elements), 8) + u(total, 32))


def short_id(capsule, salt, element):
    key = kdf("selfsame/1 capsule sketch", capsule + salt)
    return int.from_bytes(mac(key, element)[:8], "little")


def _mix(word):
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def _check(id):
    return _mix(id) >> 32


def _places(id, count):
    """The symbols, of so many, that hold an id."""
    place, state = 0, id
    while place < count:
        yield place
        state = (state + 0x9E3779B97F4A7C15) & WORD
        root = isqrt(_mix(state))
        if root == 0:
            return
        place += 1 + (2 * place + 3) * ((1 << 32) - root) // (2 * root)


class Sketch:
    """The first symbols of a set: sum, check and count of each."""

    def __init__(self, symbols, elements):
        self.symbols = symbols
        self.elements = elements

    @classmethod
    def of(cls, ids, count):
        sketch = cls([(0, 0, 0)] * count, len(ids))
        for id in ids:
            sketch.add(id, 1)
        return sketch

    def add(self, id, count):
        for place in _places(id, len(self.symbols)):
            sum, check, before = self.symbols[place]
            self.symbols[place] = sum ^ id, check ^ _check(id), before + count

    @classmethod
    def read(cls, reader, count, elements):
        expect(count <= MAX_SYMBOLS and elements <= MAX_ELEMENTS)
        symbols = []
        for place in range(count):
            sum, check = reader.uint(8), reader.uint(4)
            number = 2 * elements // (place + 2) + _read_signed(reader)
            expect(-(1 << 31) <= number < 1 << 31)
            symbols.append((sum, check, number))
        return cls(symbols, elements)

    def encode(self):
        return b"".join(
            u(sum, 8) + u(check, 4) + _signed(count - 2 * self.elements // (place + 2))
            for place, (sum, check, count) in enumerate(self.symbols)
        )

    def subtract(self, other):
        pairs = zip(self.symbols, other.symbols)
        symbols = [(a[0] ^ b[0], a[1] ^ b[1], a[2] - b[2]) for a, b in pairs]
        return Sketch(symbols, 0)

    def estimate(self):
        """About how many ids a difference holds."""
        surplus, rest = self.symbols[0][2], self.symbols[1:]
        squares = [
            (symbol[2] * (place + 2) - 2 * surplus) ** 2 // (2 * place)
            for place, symbol in enumerate(rest, 1)
        ]
        return max(sum(squares) // max(len(rest), 1), abs(surplus))

    def decode(self):
        """The ids of a difference that the first set has and the second has; `None` if there are too many."""
        sides = {1: [], -1: []}
        places = list(range(len(self.symbols)))
        while places:
            id, check, count = self.symbols[places.pop()]
            if count not in sides or check != _check(id):
                continue
            sides[count].append(id)
            if len(sides[1]) + len(sides[-1]) > len(self.symbols):
                return None
            self.add(id, -count)
            places += _places(id, len(self.symbols))
        is_empty = all(symbol == (0, 0, 0) for symbol in self.symbols)
        return (sides[1], sides[-1]) if is_empty else None


def _signed(value):
    rest = value << 1 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_signed(reader):
    value = 0
    for shift in range(0, 35, 7):
        byte = reader.uint(1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 if value & 1 == 0 else -(value + 1 >> 1)
    raise Malformed("a number of more than five bytes")
