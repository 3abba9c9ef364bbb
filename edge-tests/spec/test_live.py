"""This peer against live nodes: handshakes, names, calls, and what nodes must refuse."""

import http.client
import json
import os
import time
import unittest
from urllib.parse import urlsplit

import websockets.sync.client
from websockets.exceptions import ConnectionClosed, InvalidStatus

from client import Client
from peer import channel as ch
from peer.codec import Refused, encode
from peer.connection import Connection, Ended
from peer.handshake import CONFIRMATION, REJECT, RESPONSE, Initiator
from peer.identity import Identity, NodeRecord, network_id, sign_record
from peer.ring import read_response
from peer.transport import Closed, dial

RING = json.loads(os.environ["SPEC_RING"])
NET = network_id(RING["network"])
ADDRESSES = {
    "wasmtime over WebSocket": RING["host"],
    "wasmtime over HTTP": RING["host"].replace("ws:", "http:", 1),
    "Node over WebSocket": RING["service"]["ws"],
    "Node over HTTP": RING["service"]["http"],
}
OWNER = bytes.fromhex(RING["service"]["owner"])
FIND_NODE = encode([1, bytes(32)])


def identity():
    return Identity(os.urandom(32), NET)


def parts(bootstrap):
    address, _, target = bootstrap.partition("#")
    return address, bytes.fromhex(target)


def connect(bootstrap, first=b""):
    address, target = parts(bootstrap)
    return Connection(dial(address), identity(), target, first)


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def now_ms():
    return time.time_ns() // 1_000_000


class Live(unittest.TestCase):
    """Runs a check at each address."""

    def everywhere(self, check):
        for what, bootstrap in ADDRESSES.items():
            with self.subTest(what):
                check(bootstrap)

    def assert_refused(self, code, act):
        with self.assertRaises(Refused) as caught:
            act()
        self.assertEqual(caught.exception.code, code)

    def assert_answers(self, connection):
        """The session works, both ways."""
        connection.ping()
        read_response(connection.request(FIND_NODE))


class Handshakes(Live):
    def test_a_session_comes_up_and_answers(self):
        def check(bootstrap):
            connection = connect(bootstrap)
            self.assertEqual(connection.peer, parts(bootstrap)[1])
            self.assert_answers(connection)
            connection.close()

        self.everywhere(check)

    def test_the_payload_of_m3_is_delivered(self):
        def check(bootstrap):
            connection = connect(bootstrap, ch.write_frame(ch.PING, 77))
            connection.await_pong(77)

        self.everywhere(check)

    def test_whoever_answers_proves_its_id(self):
        def check(bootstrap):
            address, target = parts(bootstrap)
            self.assertEqual(Connection(dial(address), identity()).peer, target)

        self.everywhere(check)

    def test_a_wrong_id_is_rejected_by_the_node(self):
        def check(bootstrap):
            address, target = parts(bootstrap)
            wrong = flipped(target, 31)
            self.assert_refused("WrongPeer", lambda: Connection(dial(address), identity(), wrong))

        self.everywhere(check)

    def test_a_node_that_proves_another_id_is_refused_by_the_client(self):
        def check(bootstrap):
            address, target = parts(bootstrap)
            path, initiator = dial(address), Initiator(identity())
            path.send(initiator.m1)
            m2 = self.await_frame(path, RESPONSE)
            initiator.target = flipped(target, 0)
            self.assert_refused("WrongPeer", lambda: initiator.finish(m2))

        self.everywhere(check)

    def test_wrong_version_suite_and_network_are_named(self):
        def check(bootstrap):
            address, target = parts(bootstrap)
            for at, code in ((1, "WrongVersion"), (2, "WrongSuite"), (12, "WrongNetwork")):
                path, initiator = dial(address), Initiator(identity(), target)
                path.send(flipped(initiator.m1, at))
                self.assertEqual(initiator.reject(self.await_frame(path, REJECT)), code)

        self.everywhere(check)

    def test_another_network_has_no_session(self):
        address, target = parts(RING["host"])
        stranger = Identity(os.urandom(32), network_id("another"))
        self.assert_refused("WrongNetwork", lambda: Connection(dial(address), stranger, target))

    def test_a_bit_that_flips_in_m1_ends_the_handshake(self):
        def check(bootstrap):
            address, target = parts(bootstrap)
            path, initiator = dial(address), Initiator(identity(), target)
            path.send(flipped(initiator.m1, 1240))
            m2 = self.await_frame(path, RESPONSE)
            self.assert_refused("BadHandshake", lambda: initiator.finish(m2))

        self.everywhere(check)

    def test_a_bit_that_flips_in_m3_makes_no_session_and_does_not_end_the_handshake(self):
        def check(bootstrap):
            address, target = parts(bootstrap)
            path, initiator = dial(address), Initiator(identity(), target)
            path.send(initiator.m1)
            initiator.finish(self.await_frame(path, RESPONSE))
            m3 = initiator.m3(ch.write_frame(ch.PING, 5))
            self.assertEqual(m3[0], CONFIRMATION)
            path.send(flipped(m3, 40), flipped(m3, len(m3) - 1))
            self.assertEqual(path.receive(0.3), [])
            session = ch.Session(initiator.keys, True, initiator.index, initiator.peer_index)
            path.send(m3, m3)
            frames = [ch.read_frames(session.open(frame)) for frame in path.receive(5)]
            self.assertEqual(frames, [[(ch.PONG, 5)]], "it counts once")

        self.everywhere(check)

    def test_a_repeated_m1_gets_the_same_m2(self):
        address, target = parts(RING["host"])
        path, initiator = dial(address), Initiator(identity(), target)
        path.send(initiator.m1, initiator.m1)
        self.assertEqual(self.await_frame(path, RESPONSE), self.await_frame(path, RESPONSE))

    def test_half_open_handshakes_of_one_path_are_bounded(self):
        address, target = parts(RING["host"])
        path = dial(address)
        for _ in range(4):
            path.send(Initiator(identity(), target).m1)
            self.await_frame(path, RESPONSE)
        last = Initiator(identity(), target)
        path.send(last.m1)
        self.assertEqual(last.reject(self.await_frame(path, REJECT)), "TooManyHandshakes")

    def setUp(self):
        self.came = {}

    def await_frame(self, path, kind):
        """The next frame on a path, which must be of a kind."""
        came = self.came.setdefault(id(path), [])
        until = time.monotonic() + 5
        while not came and time.monotonic() < until:
            came += path.receive(0.5)
        self.assertTrue(came, "no answer")
        frame = came.pop(0)
        self.assertEqual(frame[0], kind)
        return frame


class Sessions(Live):
    def test_what_does_not_belong_to_the_session_is_dropped(self):
        def check(bootstrap):
            connection = connect(bootstrap)
            packet = connection.session.seal(ch.write_frame(ch.PING, 1))
            for junk in (b"\x00", os.urandom(500), packet[:31], flipped(packet, 20), flipped(packet, 8)):
                connection.path.send(junk)
            self.assert_answers(connection)

        self.everywhere(check)

    def test_a_repeated_packet_counts_once(self):
        def check(bootstrap):
            connection = connect(bootstrap)
            packet = connection.session.seal(ch.write_frame(ch.REQUEST, 9, FIND_NODE))
            connection.path.send(packet, packet)
            connection.path.send(packet)
            opened = []
            until = time.monotonic() + 1
            while time.monotonic() < until:
                for frame in connection.path.receive(0.2):
                    opened += ch.read_frames(connection.session.open(frame))
            self.assertEqual([frame[:2] for frame in opened], [(ch.RESPONSE, 9)])

        self.everywhere(check)

    def test_a_new_key_is_taken_up(self):
        def check(bootstrap):
            connection = connect(bootstrap)
            self.assert_answers(connection)
            for phase in range(1, 4):
                connection.session.rekey()
                self.assertEqual(connection.session.phase, phase)
                self.assert_answers(connection)

        self.everywhere(check)

    def test_frames_against_the_rules_end_the_session_with_the_class(self):
        cases = [
            (b"\x0c", "Malformed"),
            (ch.write_frame(ch.DATA, 0, 0, b""), "Malformed"),
            (ch.write_frame(ch.OPEN, 1, b"", "check", b""), "Misbehaved"),
        ]

        def check(bootstrap):
            for payload, name in cases:
                connection = connect(bootstrap)
                connection.send(payload)
                with self.assertRaises(Ended) as caught:
                    connection.await_end()
                self.assertEqual(caught.exception.name, name)

        self.everywhere(check)

    def test_more_than_the_credit_ends_the_session(self):
        connection = connect(RING["service"]["ws"])
        head = encode(["POST", "/", []])
        connection.send(ch.write_frame(ch.OPEN, 0, b"", "free-echo", head))
        beyond = ch.write_frame(ch.DATA, 0, ch.STREAM_WINDOW, b"x")
        connection.send(beyond)
        with self.assertRaises(Ended) as caught:
            connection.await_end()
        self.assertEqual(caught.exception.name, "Misbehaved")

    def test_a_name_that_is_not_served_is_reset(self):
        def check(bootstrap):
            connection = connect(bootstrap)
            with self.assertRaises(Ended) as caught:
                connection.call(b"", "nothing", encode(["GET", "/", []]))
            self.assertEqual(caught.exception.name, "Service")
            self.assert_answers(connection)

        self.everywhere(check)


class Transports(Live):
    def test_the_keep_alive_is_answered(self):
        for bootstrap in (RING["host"], RING["service"]["ws"]):
            self.assertEqual(connect(bootstrap).path.keep_alive(5), "pong")

    def test_a_socket_without_the_subprotocol_is_refused(self):
        for bootstrap in (RING["host"], RING["service"]["ws"]):
            with self.assertRaises(InvalidStatus) as caught:
                websockets.sync.client.connect(parts(bootstrap)[0], proxy=None, legacy=True)
            self.assertEqual(caught.exception.response.status_code, 400)

    def test_other_text_and_large_messages_close_the_socket(self):
        for bootstrap in (RING["host"], RING["service"]["ws"]):
            for message, code in (("hello", 1003), (bytes(65_537), 1009)):
                with self.subTest(bootstrap=bootstrap, code=code):
                    options = {
                        "subprotocols": ["selfsame.1"],
                        "compression": None,
                        "proxy": None,
                        "legacy": True,
                    }
                    socket = websockets.sync.client.connect(parts(bootstrap)[0], **options)
                    socket.send(message)
                    with self.assertRaises(ConnectionClosed) as caught:
                        socket.recv(timeout=5)
                    self.assertEqual(caught.exception.rcvd.code, code)

    def test_posts_that_are_none_are_refused(self):
        url = urlsplit(parts(RING["service"]["http"])[0])
        token, frames = {"selfsame-path": "0" * 32}, {"content-type": "application/selfsame"}
        cases = [
            ("GET", {}, b"", 405),
            ("POST", token, b"", 415),
            ("POST", frames, b"", 400),
            ("POST", frames | {"selfsame-path": "0" * 31 + "G"}, b"", 400),
            ("POST", frames | token, b"\x05\x00\x00\x00abc", 400),
            ("POST", frames | token, bytes(1_048_577), 413),
            ("OPTIONS", {}, b"", 204),
        ]
        for method, headers, body, status in cases:
            with self.subTest(method=method, status=status):
                connection = http.client.HTTPConnection(url.hostname, url.port, timeout=5)
                connection.request(method, url.path, body, headers)
                self.assertEqual(connection.getresponse().status, status)
                connection.close()


class Ring(Live):
    def setUp(self):
        self.connection = connect(RING["host"])

    def assert_class(self, name, request):
        self.assert_refused(name, lambda: read_response(self.connection.request(encode(request))))

    def record(self, of, is_member=True, sequence=None):
        sequence = sequence or now_ms()
        addresses = ["wss://n.example/.mesh"] if is_member else []
        return sign_record(of, is_member, addresses, "", sequence, sequence + 60_000)

    def test_answers_carry_the_records_of_members(self):
        result = read_response(self.connection.request(FIND_NODE))
        own, closer, successors, predecessor, entries = result
        records = [
            NodeRecord(data, NET, now_ms()) for data in [own, *closer, *successors, predecessor] if data
        ]
        members = {
            parts(RING["host"])[1],
            bytes.fromhex(RING["service"]["id"]),
            bytes.fromhex(RING["third"]["id"]),
        }
        self.assertTrue({record.id for record in records} <= members)
        self.assertGreaterEqual(len({record.id for record in records}), 2)
        self.assertEqual(entries, [])

    def hop(self, request):
        return read_response(self.connection.request(encode(request)))

    def test_an_answer_names_nobody_who_is_not_needed(self):
        own_id = parts(RING["host"])[1]
        own, closer, successors, predecessor, entries = self.hop([1, own_id])
        self.assertEqual(NodeRecord(own, NET, now_ms()).id, own_id)
        self.assertEqual((closer, len(successors), predecessor, entries), ([], 2, None, []))
        self.assertEqual(self.hop([10, own_id, own_id]), [own, [], [], None, []])

        behind = ((int.from_bytes(own_id, "big") + 1) % 2**256).to_bytes(32, "big")
        own, closer, successors, predecessor, _entries = self.hop([1, behind])
        self.assertEqual((own, len(successors), predecessor), (None, 2, None))

        first = NodeRecord(successors[0], NET, now_ms()).id
        self.assertEqual(self.hop([10, behind, first]), [None, [], successors[:1], None, []])
        self.assertEqual(self.hop([10, behind, bytes(32)]), [None, closer, successors, None, []])

    def test_what_is_no_request_is_malformed(self):
        for body in (
            b"",
            b"\xff",
            encode([99]),
            encode([1, b"short"]),
            encode([10, bytes(32)]),
            encode([10, bytes(32), b"short"]),
            FIND_NODE + b"\x00",
            encode([0, [b""] * 17]),
        ):
            with self.subTest(body=body.hex()[:20]):
                self.assert_refused("Malformed", lambda: read_response(self.connection.request(body)))

    def test_nobody_speaks_for_another(self):
        stranger = identity()
        self.assert_class("Misbehaved", [6, self.record(stranger), False, []])
        self.assert_class("Misbehaved", [7, self.record(stranger), None, [], []])
        self.assert_class("Misbehaved", [8, self.record(stranger, False)])

    def test_a_record_that_does_not_verify_is_refused(self):
        mine = self.connection_identity()
        self.assert_class("Misbehaved", [8, flipped(self.record(mine, False), 12 + 60)])
        self.assert_class("WrongClock", [8, self.record(mine, False, now_ms() + 3_600_000)])

    def connection_identity(self):
        mine = identity()
        address, target = parts(RING["host"])
        self.connection = Connection(dial(address), mine, target)
        return mine

    def test_a_leaf_attaches_and_detaches(self):
        mine = self.connection_identity()
        self.assertIsNone(read_response(self.connection.request(encode([8, self.record(mine, False)]))))
        self.assertIsNone(read_response(self.connection.request(encode([9]))))


class Calls(Live):
    def client(self, bootstrap):
        return Client(RING["network"], bootstrap, allow_private=True)

    def test_an_owned_name_is_found_and_called(self):
        def check(bootstrap):
            client = self.client(bootstrap)
            (provider,) = client.find("check", OWNER)
            self.assertEqual(provider.id.hex(), RING["service"]["id"])
            url = "https://check.mesh/login?x=1"
            sent = [("x-sent", "header"), ("content-type", "text/plain")]
            status, headers, body = client.fetch(url, OWNER, "POST", sent, "caf\u00e9".encode())
            self.assertEqual((status, body.decode()), (201, "/login:caf\u00e9"))
            headers = dict(map(tuple, headers))
            self.assertEqual(headers["x-caller"], client.identity.id.hex())
            self.assertEqual((headers["x-method"], headers["x-header"]), ("POST", "header"))
            client.close()

        self.everywhere(check)
        check(RING["third"]["ws"])
        check(RING["third"]["http"])

    def test_an_unowned_name_is_another_name(self):
        client = self.client(RING["host"])
        status, _, body = client.fetch("https://free-echo.mesh/a")
        self.assertEqual((status, body), (201, b"/a:"))
        self.assert_refused("NoProvider", lambda: client.find("free-echo", OWNER))
        self.assert_refused("NoProvider", lambda: client.find("check"))

    def test_a_leaf_is_called_through_its_member(self):
        def check(bootstrap):
            client = self.client(bootstrap)
            (provider,) = client.find("leaf", OWNER)
            self.assertEqual(provider.id.hex(), RING["leaf"])
            self.assertFalse(provider.record.is_member)
            self.assertTrue(all(address.startswith("relay:") for address in provider.record.addresses))
            sent = b"x" * 300_000
            status, headers, body = client.fetch("https://leaf.mesh/y", OWNER, "POST", body=sent)
            self.assertEqual((status, body), (201, b"/y:" + sent))
            self.assertEqual(dict(map(tuple, headers))["x-caller"], client.identity.id.hex())

        self.everywhere(check)

    def test_a_member_says_that_it_has_no_session_with_a_peer(self):
        mine, (address, target) = identity(), parts(RING["host"])
        connection = Connection(dial(address), mine, target)
        record = sign_record(mine, False, [], "", now_ms(), now_ms() + 60_000)
        self.assertIsNone(read_response(connection.request(encode([8, record]))))
        nobody = identity().id
        with self.assertRaises(Closed):
            Connection(connection.relay(nobody), mine, nobody)
        self.assert_answers(connection)

    def test_a_name_of_another_owner_and_of_nobody_are_not_found(self):
        client = self.client(RING["host"])
        self.assert_refused("NoProvider", lambda: client.find("check", identity().public))
        self.assert_refused("NoProvider", lambda: client.find("nothing"))

    def test_bodies_larger_than_the_window_flow_both_ways(self):
        for bootstrap in (RING["service"]["ws"], RING["service"]["http"]):
            with self.subTest(bootstrap):
                client = self.client(bootstrap)
                status, _, body = client.fetch("https://check.mesh/large", OWNER)
                self.assertEqual((status, body), (200, b"\x07" * 1_048_576))
                sent = b"0123456789abcdef" * 40_000
                _, _, body = client.fetch("https://check.mesh/", OWNER, "PUT", body=sent)
                self.assertEqual(body, b"/:" + sent)

    def test_answers_without_a_body(self):
        client = self.client(RING["service"]["ws"])
        status, _, body = client.fetch("https://check.mesh/empty", OWNER)
        self.assertEqual((status, body), (204, b""))
        _, headers, body = client.fetch("https://check.mesh/x", OWNER, "HEAD")
        self.assertEqual((dict(map(tuple, headers))["x-method"], body), ("HEAD", b""))

    def test_a_handler_that_fails_is_a_status_of_500(self):
        client = self.client(RING["service"]["ws"])
        self.assertEqual(client.fetch("https://check.mesh/fails", OWNER)[0], 500)
        self.assertEqual(client.fetch("https://check.mesh/", OWNER)[0], 201)

    def test_a_head_that_is_none_is_malformed(self):
        connection = connect(RING["service"]["ws"])
        for head in (b"", encode(["GET", "x", []]), encode(["GET", "/", [["a\n", "b"]]])):
            with self.assertRaises(Ended) as caught:
                connection.call(OWNER, "check", head)
            self.assertEqual(caught.exception.name, "Malformed")

    def test_many_calls_share_a_session(self):
        client = self.client(RING["service"]["ws"])
        for number in range(300):
            self.assertEqual(client.fetch(f"https://check.mesh/{number}", OWNER)[2], f"/{number}:".encode())


if __name__ == "__main__":
    unittest.main()
