"""docs/specification/codec.md: fixed layouts, deterministic CBOR, labelled hashes."""

from blake3 import blake3

CLASSES = {
    1: "Usage",
    2: "Malformed",
    3: "Misbehaved",
    4: "Incompatible",
    5: "Unreachable",
    6: "Limit",
    7: "Store",
    8: "Service",
}


class Refused(Exception):
    """Bytes or statements that the specification says to refuse; `code` is the name it gives the reason."""

    def __init__(self, code, text=""):
        super().__init__(f"{code}: {text}" if text else code)
        self.code = code


class Malformed(Refused):
    """Bytes that do not follow a layout."""

    def __init__(self, text=""):
        super().__init__("Malformed", text)


class Reader:
    """Takes fixed layouts apart; every length is checked against what is there."""

    def __init__(self, data):
        self.data = bytes(data)
        self.at = 0

    def take(self, length):
        if length > len(self.data) - self.at:
            raise Malformed("it ends early")
        self.at += length
        return self.data[self.at - length : self.at]

    def uint(self, size):
        return int.from_bytes(self.take(size), "little")

    def bytes(self):
        return self.take(self.uint(4))

    @property
    def left(self):
        return len(self.data) - self.at


def u(value, size):
    """An unsigned integer, little-endian."""
    return value.to_bytes(size, "little")


def field(data):
    """Bytes after their u32 length."""
    return u(len(data), 4) + data


def labelled_hash(label, *parts):
    """H of the specification."""
    hasher = blake3(derive_key_context=label)
    for part in parts:
        hasher.update(u(len(part), 8))
        hasher.update(part)
    return hasher.digest()


def kdf(label, data):
    """KDF of the specification."""
    return blake3(data, derive_key_context=label).digest()


def mac(key, data):
    """MAC of the specification."""
    return blake3(data, key=key).digest()


def encode(value):
    """Deterministic CBOR of an int, bytes, str, list, dict, bool or None."""
    if value is False or value is True or value is None:
        return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int):
        return _head(0, value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return _head(3, len(text)) + text
    if isinstance(value, (list, tuple)):
        return _head(4, len(value)) + b"".join(encode(item) for item in value)
    pairs = sorted((encode(key), encode(item)) for key, item in value.items())
    return _head(5, len(pairs)) + b"".join(key + item for key, item in pairs)


def _head(major, value):
    if value < 24:
        return bytes([major << 5 | value])
    for additional, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 1 << (8 * size):
            return bytes([major << 5 | additional]) + value.to_bytes(size, "big")
    raise ValueError("an integer has at most 64 bits")


def decode(data):
    """The one value that `data` is; everything but the one encoding of it is refused."""
    reader = Reader(data)
    value = _item(reader)
    if reader.left:
        raise Malformed("bytes after the value")
    return value


def _item(reader):
    first = reader.uint(1)
    if first in (0xF4, 0xF5, 0xF6):
        return {0xF4: False, 0xF5: True, 0xF6: None}[first]
    major, additional = first >> 5, first & 0x1F
    if major not in (0, 2, 3, 4, 5):
        raise Malformed("an item that does not occur")
    value = _length(reader, additional)
    if major == 0:
        return value
    if major == 2:
        return reader.take(value)
    if major == 3:
        try:
            return reader.take(value).decode()
        except UnicodeDecodeError:
            raise Malformed("text that is not UTF-8") from None
    if value > reader.left:
        raise Malformed("a length beyond the input")
    if major == 4:
        return [_item(reader) for _ in range(value)]
    return _map(reader, value)


def _length(reader, additional):
    if additional < 24:
        return additional
    if additional > 27:
        raise Malformed("an indefinite length")
    size = 1 << (additional - 24)
    value = int.from_bytes(reader.take(size), "big")
    least = 24 if size == 1 else 1 << (4 * size)
    if value < least:
        raise Malformed("a longer form than necessary")
    return value


def _map(reader, count):
    result, last = {}, None
    for _ in range(count):
        start = reader.at
        key = _item(reader)
        encoded = reader.data[start : reader.at]
        if last is not None and encoded <= last:
            raise Malformed("keys out of order")
        last = encoded
        result[key] = _item(reader)
    return result


def expect(condition, text=""):
    """Refuses a value of another shape than the CDDL's."""
    if not condition:
        raise Malformed(text)


def is_uint(value, most=(1 << 64) - 1):
    return type(value) is int and 0 <= value <= most


def is_bytes(value, least, most=None):
    return type(value) is bytes and least <= len(value) <= (least if most is None else most)


def is_text(value, least, most):
    return type(value) is str and least <= len(value.encode()) <= most


def is_list(value, least, most=None):
    return type(value) is list and least <= len(value) <= (least if most is None else most)
