"""docs/specification/ring.md: associations, and finding a name from outside the ring."""

import time

from .codec import (
    CLASSES,
    Malformed,
    Refused,
    decode,
    encode,
    expect,
    is_bytes,
    is_list,
    is_text,
    is_uint,
    kdf,
    mac,
    labelled_hash,
)
from .identity import (
    CLOCK_SKEW_MS,
    NodeRecord,
    address_problem,
    check_grant,
    is_name,
    open_signed,
    peer_id,
    verify,
)

MAX_LIFE_MS = 2 * 3_600_000
MAX_ASKED = 64
MAX_ASSOCIATION_BYTES = 1619
CIRCLE = 1 << 256


def distance(start, end):
    """The way clockwise."""
    return (int.from_bytes(end, "big") - int.from_bytes(start, "big")) % CIRCLE


def in_half_open(start, middle, end):
    return start == end or (middle != start and distance(start, middle) <= distance(start, end))


def in_open(start, middle, end):
    return middle not in (start, end) and in_half_open(start, middle, end)


def object_id(net, owner, name, r):
    return labelled_hash("selfsame/1 object id", net, owner, name.encode(), bytes([r]))


def root_from_path(leaf_hash, index, leaves, path):
    """The root that a path leads to, or `None` when it does not fit."""
    if index >= leaves:
        return None
    if leaves == 1:
        return leaf_hash if not path else None
    if not path:
        return None
    left = 1 << ((leaves - 1).bit_length() - 1)
    *rest, sibling = path
    key = kdf("selfsame/1 association node", b"")
    if index < left:
        below = root_from_path(leaf_hash, index, left, rest)
        return below and mac(key, below + sibling)
    below = root_from_path(leaf_hash, index - left, leaves - left, rest)
    return below and mac(key, sibling + below)


class Association:
    """What ties an object to a peer that serves it, verified."""

    def __init__(self, data, net, now_ms):
        try:
            root, leaf_bytes, index, path = _outer(data)
            raw, statement, signature = open_signed(root, MAX_ASSOCIATION_BYTES)
            leaf = decode(leaf_bytes)
            expect(_is_root(statement) and _is_leaf(leaf))
        except Malformed as error:
            raise Refused("BadRecord", str(error)) from None
        _, root_net, public, self.sequence, not_before, expiry, leaves, root_hash = statement
        _, self.owner, self.name, self.r, self.object, self.withdrawn, self.version, self.weight, grant = leaf
        if root_net != net:
            raise Refused("WrongNetwork")
        if not 1 <= expiry - not_before <= MAX_LIFE_MS:
            raise Refused("BadRecord", "its times")
        if not is_name(self.name) or self.object != object_id(net, self.owner, self.name, self.r):
            raise Refused("BadRecord", "its object")
        leaf_hash = labelled_hash("selfsame/1 association leaf", leaf_bytes)
        if root_from_path(leaf_hash, index, leaves, path) != root_hash:
            raise Refused("BadRecord", "its path")
        if now_ms >= expiry or max(self.sequence, not_before) > now_ms + CLOCK_SKEW_MS:
            raise Refused("StaleRecord")
        if not verify(public, "selfsame/1 association root", raw, signature):
            raise Refused("BadSignature")
        self.publisher = peer_id(public, net)
        self._check_grant(grant, net, now_ms)

    def _check_grant(self, grant, net, now_ms):
        if not grant and (self.withdrawn or not self.owner):
            return
        if not self.owner:
            raise Refused("BadRecord", "a grant without an owner")
        try:
            granted = check_grant(grant, net, now_ms)
        except Refused as error:
            code = error.code if error.code == "BadSignature" else "NotGranted"
            raise Refused(code, str(error)) from None
        if granted != (self.owner, self.name, self.publisher):
            raise Refused("NotGranted")


def _outer(data):
    outer = decode(data)
    expect(is_list(outer, 4) and type(outer[0]) is bytes and type(outer[1]) is bytes)
    expect(is_uint(outer[2], 1023) and is_list(outer[3], 0, 10))
    expect(all(is_bytes(item, 32) for item in outer[3]))
    return outer


def _is_root(s):
    return (
        is_list(s, 8)
        and is_uint(s[0])
        and s[0] == 1
        and is_bytes(s[1], 32)
        and is_bytes(s[2], 32)
        and all(is_uint(item) for item in s[3:6])
        and is_uint(s[6], 1024)
        and is_bytes(s[7], 32)
    )


def _is_leaf(s):
    return (
        is_list(s, 9)
        and is_bytes(s[0], 16)
        and type(s[1]) is bytes
        and len(s[1]) in (0, 32)
        and is_text(s[2], 1, 63)
        and is_uint(s[3], 3)
        and is_bytes(s[4], 32)
        and type(s[5]) is bool
        and is_text(s[6], 0, 64)
        and is_uint(s[7], 0xFFFF)
        and is_bytes(s[8], 0, 384)
    )


def read_response(body):
    """The result of a response; a refusal is raised with its class."""
    response = decode(body)
    expect(is_list(response, 2) and is_uint(response[0], 3))
    if response[0] == 2:
        raise Refused("Superseded", response[1])
    if response[0] == 3:
        raise Refused("WrongClock", f"it is {response[1]} there")
    if response[0] == 1:
        expect(response[1] in CLASSES)
        raise Refused(CLASSES[response[1]], "the member refused")
    return response[1]


class Hop:
    """An answer to find-node or find, records verified; what does not verify is left out."""

    def __init__(self, peer, result, net, now_ms, allow_private):
        expect(is_list(result, 5) and is_list(result[1], 0, 16) and is_list(result[2], 0, 16))
        expect(type(result[4]) is list)
        read = lambda items: _members(items, net, now_ms, allow_private)
        one = lambda item: next(iter(read([] if item is None else [item])), None)
        own = one(result[0])
        self.own = own
        self.responsible = own is not None and own.id == peer
        self.closer, self.successors, self.predecessor = read(result[1]), read(result[2]), one(result[3])
        self.entries = result[4]


def _members(items, net, now_ms, allow_private):
    members = []
    for item in items:
        expect(type(item) is bytes)
        try:
            record = NodeRecord(item, net, now_ms)
        except Refused:
            continue
        allowed = not any(address_problem(address, allow_private) for address in record.addresses)
        if record.is_member and allowed:
            members.append(record)
    return members


class Provider:
    """A peer that serves a name."""

    def __init__(self, association, record):
        self.id = association.publisher
        self.record = record
        self.weight, self.version = association.weight, association.version


class Seeker:
    """Finds names. `ask` sends a request to a member, given by its id and record, and gives the response's body."""

    def __init__(self, net, ask, start, allow_private=False):
        self.net, self._ask, self._start = net, ask, start
        self._allow_private = allow_private

    def find(self, owner, name):
        """All providers of a name, by sibling objects."""
        avoided = set()
        for r in range(4):
            target = object_id(self.net, owner, name, r)
            hop, asked = self._look_up(target, avoided)
            avoided |= asked
            providers = self._providers(hop.entries, target) if hop else []
            mirrors = hop.successors[:2] if hop else []
            for mirror in [] if providers else mirrors:
                held = self._hop(mirror.id, mirror, [2, target, True])
                providers = providers or (self._providers(held.entries, target) if held else [])
            if providers:
                return providers
        raise Refused("NoProvider")

    def find_node(self, peer):
        """The record of a member."""
        hop, _ = self._look_up(peer, set(), lambda target: [1, target])
        if hop is None or hop.own.id != peer:
            raise Refused("NoRoute", "the member is not on the ring")
        return hop.own

    def _hop(self, peer, record, request):
        now_ms = time.time_ns() // 1_000_000
        try:
            body = self._ask(peer, record, encode(request))
            return Hop(peer, read_response(body), self.net, now_ms, self._allow_private)
        except Exception as error:
            if isinstance(error, (AssertionError, NameError, TypeError)):
                raise
            return None

    def _look_up(self, target, avoided, request=lambda target: [2, target, False]):
        """The answer of the member that is responsible, and whom the lookup asked."""
        candidates = {peer: (record, False) for peer, record in self._start.items()}
        asked, owner = set(), None
        while len(asked) < MAX_ASKED:
            peer = _next(candidates, asked, target, avoided, owner and owner[0])
            if peer is None:
                break
            asked.add(peer)
            record, is_after = candidates[peer]
            hop = self._hop(peer, record, request(target))
            if hop is None or not all(in_open(peer, other.id, target) for other in hop.closer):
                continue
            _learn(candidates, peer, hop, target, is_after)
            is_nearer = owner is None or distance(target, peer) < distance(target, owner[0])
            if hop.responsible and is_nearer:
                owner = peer, hop
        return (owner and owner[1]), asked

    def _providers(self, entries, target):
        """Who serves the object, by what verifies."""
        newest, now_ms = {}, time.time_ns() // 1_000_000
        for entry in entries:
            try:
                expect(is_list(entry, 2) and type(entry[0]) is bytes and type(entry[1]) is bytes)
                association = Association(entry[0], self.net, now_ms)
                record = NodeRecord(entry[1], self.net, now_ms)
                expect(record.id == association.publisher and association.object == target)
            except Refused:
                continue
            known = newest.get(association.publisher)
            if known is None or known[0].sequence < association.sequence:
                newest[association.publisher] = association, record
        live = [(association, record) for association, record in newest.values() if not association.withdrawn]
        return [Provider(association, record) for association, record in live if association.weight > 0]


def _learn(candidates, peer, hop, target, was_after):
    for record in hop.closer:
        candidates.setdefault(record.id, (record, False))
    for record in hop.successors:
        is_after = in_half_open(peer, target, record.id)
        known = candidates.get(record.id, (record, False))
        candidates[record.id] = record, known[1] or is_after
    back = hop.predecessor
    if was_after and back and distance(target, back.id) < distance(target, peer):
        candidates[back.id] = back, True


def _next(candidates, asked, target, avoided, owner):
    """The nearest after the target, otherwise the nearest before it; once there is an owner, only who lies nearer."""
    new = [peer for peer in candidates if peer not in asked]
    after = sorted((distance(target, peer), peer) for peer in new if candidates[peer][1])
    if owner is not None:
        after = [item for item in after if item[0] < distance(target, owner)]
        return after[0][1] if after else None
    if after:
        return after[0][1]
    before = sorted((peer in avoided, distance(peer, target), peer) for peer in new)
    return before[0][2] if before else None
