"""docs/specification/handshake.md: the initiator's half."""

import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .codec import Refused, kdf, labelled_hash, mac, u
from .identity import peer_id, verify

INITIATION, RESPONSE, CONFIRMATION, COOKIE, REJECT, PACKET = 1, 2, 3, 4, 5, 16
VERSION, SUITE = 2, 1
REJECT_CODES = {
    0x0401: "WrongNetwork",
    0x0402: "WrongPeer",
    0x0403: "WrongVersion",
    0x0404: "WrongSuite",
    0x0601: "TooManyHandshakes",
    0x0602: "TooManySessions",
}
ONLY_NONCE = bytes(12)


class XWing:
    """An X-Wing key pair out of its seed."""

    def __init__(self, seed):
        expanded = hashlib.shake_256(seed).digest(96)
        self._mlkem = MLKEM768PrivateKey.from_seed_bytes(expanded[:64])
        self._x25519 = X25519PrivateKey.from_private_bytes(expanded[64:])
        self._point = self._x25519.public_key().public_bytes_raw()
        self.public = self._mlkem.public_key().public_bytes_raw() + self._point

    def decapsulate(self, ciphertext):
        ephemeral = ciphertext[1088:]
        try:
            from_curve = self._x25519.exchange(X25519PublicKey.from_public_bytes(ephemeral))
        except ValueError:
            raise Refused("BadHandshake", "a shared secret of zeros") from None
        from_lattice = self._mlkem.decapsulate(ciphertext[:1088])
        label = bytes.fromhex("5c2e2f2f5e5c")
        return hashlib.sha3_256(from_lattice + from_curve + ephemeral + self._point + label).digest()


def header(kind, sender, receiver, net):
    return bytes([kind, VERSION, SUITE, 0]) + u(sender, 4) + u(receiver, 4) + net[:4]


def check_header(frame, kind, net):
    """Checks the header of a frame of a kind; gives the indexes of sender and receiver."""
    if len(frame) < 16 or frame[0] != kind or frame[3] != 0:
        raise Refused("BadFrame")
    for wrong, code in (
        (frame[1] != VERSION, "WrongVersion"),
        (frame[2] != SUITE, "WrongSuite"),
        (frame[12:16] != net[:4], "WrongNetwork"),
    ):
        if wrong:
            raise Refused(code)
    return int.from_bytes(frame[4:8], "little"), int.from_bytes(frame[8:12], "little")


def open_sealed(key, ad, sealed):
    try:
        return ChaCha20Poly1305(key).decrypt(ONLY_NONCE, sealed, ad)
    except InvalidTag:
        raise Refused("BadHandshake", "it does not open") from None


class Keys:
    """What a session is made from, as the initiator sees it."""

    def __init__(self, secret, answer, initiator, responder):
        root = kdf("selfsame/1 session keys", secret + answer + initiator + responder)
        self.send, self.receive, identifier = (mac(root, bytes([number])) for number in range(3))
        self.session_id = identifier[:16]


class Initiator:
    """The side that begins."""

    def __init__(self, identity, target=None, index=None, seed=None, nonce=None):
        self.identity = identity
        self.target = target
        self.index = index or int.from_bytes(os.urandom(4), "little") | 1
        self._key = XWing(seed or os.urandom(32))
        self._before_cookie = (
            header(INITIATION, self.index, 0, identity.net)
            + self._key.public
            + (nonce or os.urandom(32))
            + (target or bytes(32))
        )
        self._cookie = bytes(32)

    @property
    def m1(self):
        return self._before_cookie + self._cookie

    def cookie(self, frame):
        """Takes a cookie; m1 is to be sent again."""
        _, receiver = check_header(frame, COOKIE, self.identity.net)
        if receiver != self.index or len(frame) != 48:
            raise Refused("BadFrame")
        self._cookie = frame[16:]

    def reject(self, frame):
        """The code of a reject that counts."""
        code = int.from_bytes(frame[16:], "little")
        if len(frame) != 18 or frame[8:12] != u(self.index, 4) or code not in REJECT_CODES:
            raise Refused("BadFrame")
        return REJECT_CODES[code]

    def finish(self, frame):
        """Takes m2. When it is sound, what m3 needs is known."""
        net = self.identity.net
        self.peer_index, receiver = check_header(frame, RESPONSE, net)
        if receiver != self.index or len(frame) < 1298:
            raise Refused("BadFrame")
        clear, sealed = frame[:1168], frame[1168:]
        self.secret = self._key.decapsulate(clear[16:1136])
        self.offer = labelled_hash("selfsame/1 handshake transcript offer", self.m1, clear)
        root = kdf("selfsame/1 handshake keys", self.secret + self.offer + net)
        self.k_m3, self.k_m2 = mac(root, b"\0"), mac(root, b"\1")
        proof = open_sealed(self.k_m2, self.offer, sealed)
        public, signature, self.peer_boot, evidence = proof[:32], proof[32:96], proof[96:112], proof[112:114]
        if evidence != bytes(2) or len(proof) != 114:
            raise Refused("BadHandshake", "evidence in an open network")
        statement = bytes([VERSION, SUITE]) + net + self.offer + public
        if not verify(public, "selfsame/1 handshake responder signature", statement, signature):
            raise Refused("BadSignature")
        self.peer = peer_id(public, net)
        if self.target not in (None, self.peer) or self.peer == self.identity.id:
            raise Refused("WrongPeer")
        self.answer = labelled_hash("selfsame/1 handshake transcript answer", self.offer, sealed)
        self.keys = Keys(self.secret, self.answer, self.identity.id, self.peer)

    def m3(self, payload=b""):
        """The message that ends the handshake, with the session's first frames."""
        identity = self.identity
        head = header(CONFIRMATION, self.index, self.peer_index, identity.net)
        statement = bytes([VERSION, SUITE]) + identity.net + self.answer + identity.public + self.peer
        signature = identity.sign("selfsame/1 handshake initiator signature", statement)
        proof = identity.public + signature + identity.boot + bytes(2) + payload
        return head + ChaCha20Poly1305(self.k_m3).encrypt(ONLY_NONCE, proof, self.answer + head)
