"""This peer agrees with every test vector of the specification."""

import json
import unittest
from pathlib import Path

from peer import channel, http, rpc
from peer.codec import CLASSES, Malformed, Refused, decode, encode, kdf, labelled_hash
from peer.handshake import Initiator, check_header, open_sealed
from peer.identity import (
    Identity,
    NodeRecord,
    address_problem,
    check_grant,
    network_id,
    peer_id,
    sign_record,
    verify,
)
from peer.ring import Association, Hop, object_id, read_response

FOLDER = Path(__file__).parents[2] / "docs/specification/vectors"


def load(name):
    return json.loads((FOLDER / name).read_text())


def h(text):
    return bytes.fromhex(text)


class Vectors(unittest.TestCase):
    """Shared checks."""

    def assert_refused(self, code, act):
        with self.assertRaises(Refused) as caught:
            act()
        self.assertEqual(caught.exception.code, code)


class Codec(Vectors):
    def test_accepted_items_come_back_in_the_same_bytes(self):
        for case in load("cbor.json")["accepted"]:
            with self.subTest(case["diagnostic"]):
                self.assertEqual(encode(decode(h(case["encoded"]))), h(case["encoded"]))

    def test_every_other_encoding_is_refused(self):
        for case in load("cbor.json")["refused"]:
            with self.subTest(case["why"]), self.assertRaises(Malformed):
                decode(h(case["bytes"]))


class Identities(Vectors):
    def test_labelled_hashes(self):
        for case in load("identity.json")["labelled_hashes"]:
            self.assertEqual(labelled_hash(case["label"], *map(h, case["parts"])), h(case["hash"]))

    def test_networks(self):
        for case in load("identity.json")["networks"]:
            self.assertEqual(network_id(case["name"]), h(case["net"]))

    def test_keys_and_ids(self):
        vectors = load("identity.json")
        for case in vectors["peers"]:
            identity = Identity(h(case["master_seed"]), network_id(case["network"]))
            self.assertEqual(identity.signing_seed, h(case["signing_seed"]))
            self.assertEqual(identity.public, h(case["public_key"]))
            self.assertEqual(identity.id, h(case["id"]))
        for case in vectors["owners"]:
            owner = Identity.of_owner(h(case["owner_seed"]), network_id(case["network"]))
            self.assertEqual(owner.public, h(case["public_key"]))

    def test_signatures(self):
        for case in load("identity.json")["signatures"]:
            statement, signature = h(case["statement"]), h(case["signature"])
            self.assertTrue(verify(h(case["public_key"]), case["label"], statement, signature))
            self.assertFalse(verify(h(case["public_key"]), case["label"], statement + b"x", signature))
            self.assertFalse(verify(h(case["public_key"]), "selfsame/1 grant", statement, signature))


class Records(Vectors):
    def setUp(self):
        self.vectors = load("records.json")
        self.net = network_id(self.vectors["network"])

    def test_records(self):
        for case in self.vectors["records"]:
            with self.subTest(case["what"]):
                read = lambda: NodeRecord(h(case["record"]), self.net, case["now_ms"])
                if case["code"]:
                    self.assert_refused(case["code"], read)
                else:
                    self.assertEqual(read().id, h(case["peer"]))

    def test_a_record_is_signed_in_the_same_bytes(self):
        case = self.vectors["records"][0]
        record = NodeRecord(h(case["record"]), self.net, case["now_ms"])
        identity = Identity(bytes([7] * 32), self.net, boot=record.boot)
        fields = (record.is_member, record.addresses, record.domain, record.sequence, record.expiry)
        self.assertEqual(sign_record(identity, *fields, record.signed_at), h(case["record"]))

    def test_grants(self):
        grants = self.vectors["grants"]
        for case in grants["cases"]:
            with self.subTest(case["what"]):
                read = lambda: check_grant(h(case["grant"]), self.net, case["now_ms"])
                if case["code"]:
                    self.assert_refused(case["code"], read)
                else:
                    self.assertEqual(read(), (h(grants["owner"]), grants["name"], h(case["peer"])))

    def test_addresses(self):
        for case in self.vectors["addresses"]:
            with self.subTest(case["address"]):
                self.assertEqual(address_problem(case["address"], False), case["code"])
                if case["code"] == "ForbiddenAddress":
                    self.assertIsNone(address_problem(case["address"], True))


class Handshakes(Vectors):
    def setUp(self):
        self.vectors = load("handshake.json")
        self.net = network_id(self.vectors["network"])

    def initiator(self, case):
        """The initiator of a case, before m2."""
        side, m1 = self.vectors["initiator"], h(case["m1"])
        identity = Identity(h(side["master_seed"]), self.net, boot=h(side["boot"]))
        target = m1[1264:1296] if any(m1[1264:1296]) else None
        nonce = m1[1232:1264]
        initiator = Initiator(identity, target, side["index"], h(case["xwing_seed"]), nonce)
        if any(m1[1296:]):
            frame = h(self.vectors["cookie_and_reject"]["cookie_frame"])
            initiator.cookie(frame)
        return initiator

    def test_whole_handshakes(self):
        for case in self.vectors["handshakes"]:
            with self.subTest(case["what"]):
                initiator = self.initiator(case)
                self.assertEqual(initiator.m1, h(case["m1"]))
                initiator.finish(h(case["m2"]))
                for name in ("secret", "offer", "k_m2", "k_m3", "answer"):
                    self.assertEqual(getattr(initiator, name), h(case[name]), name)
                self.assertEqual(initiator.peer, h(self.vectors["responder"]["id"]))
                self.assertEqual(initiator.m3(h(case["payload"])), h(case["m3"]))
                self.assertEqual(initiator.keys.send, h(case["k_initiator"]))
                self.assertEqual(initiator.keys.receive, h(case["k_responder"]))
                self.assertEqual(initiator.keys.session_id, h(case["session_id"]))

    def test_the_responders_view_of_m3(self):
        for case in self.vectors["handshakes"]:
            m3 = h(case["m3"])
            proof = open_sealed(h(case["k_m3"]), h(case["answer"]) + m3[:16], m3[16:])
            self.assertEqual(proof, h(case["proof_and_payload_m3"]))
            self.assertEqual(peer_id(proof[:32], self.net), h(self.vectors["initiator"]["id"]))

    def test_a_reject_is_read(self):
        case = self.vectors["handshakes"][2]
        frame = h(self.vectors["cookie_and_reject"]["reject_frame"])
        self.assertEqual(self.initiator(case).reject(frame), "WrongPeer")

    def test_changed_messages_are_refused_with_the_code(self):
        case = self.vectors["handshakes"][0]
        for wrong in self.vectors["refused"]:
            with self.subTest(f"{wrong['message']}: {wrong['what']}"):
                frame = h(wrong["frame"])
                if wrong["message"] == "m1":
                    self.assert_refused(wrong["code"], lambda: check_header(frame, 1, self.net))
                elif wrong["message"] == "m2":
                    self.assert_refused(wrong["code"], lambda: self.initiator(case).finish(frame))
                else:
                    opened = lambda: open_sealed(h(case["k_m3"]), h(case["answer"]) + frame[:16], frame[16:])
                    self.assert_refused(wrong["code"], opened)


class Clock:
    """A time that the test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Channels(Vectors):
    def setUp(self):
        self.vectors = load("channel.json")
        self.clock = Clock()

    def pair(self):
        """Initiator and responder."""
        session = self.vectors["session"]

        class Keys:
            session_id = h(session["session_id"])
            send = h(session["initiator_keys_by_phase"][0])
            receive = h(session["responder_keys_by_phase"][0])

        class Mirrored(Keys):
            send, receive = Keys.receive, Keys.send

        indexes = session["initiator_index"], session["responder_index"]
        one = channel.Session(Keys, True, *indexes, clock=self.clock)
        return one, channel.Session(Mirrored, False, *reversed(indexes), clock=self.clock)

    def test_keys_of_later_phases(self):
        session = self.vectors["session"]
        for side in ("initiator", "responder"):
            keys = [h(key) for key in session[f"{side}_keys_by_phase"]]
            for key, following in zip(keys, keys[1:]):
                data = key + h(session["session_id"])
                self.assertEqual(kdf("selfsame/1 next packet key", data), following)

    def test_packets_are_sealed_in_the_same_bytes_and_open(self):
        initiator, responder = self.pair()
        phase = 0
        for case in self.vectors["packets"]:
            if case["phase"] > phase:
                self.clock.now += 3600
                phase = case["phase"]
            by_initiator = case["sender"] == "initiator"
            sender, receiver = (initiator, responder) if by_initiator else (responder, initiator)
            packet = sender.seal(h(case["payload"]))
            self.assertEqual(packet, h(case["packet"]))
            self.assertEqual(receiver.open(packet), h(case["payload"]))

    def test_refused_packets_change_nothing(self):
        _, responder = self.pair()
        cases = self.vectors["refused_packets"]
        responder.open(h(cases["first"]))
        for case in cases["then"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: responder.open(h(case["packet"])))
        responder.open(h(cases["still_opens"]))

    def test_frames(self):
        for case in self.vectors["frames"]:
            with self.subTest(case["frame"]):
                (frame,) = channel.read_frames(h(case["encoded"]))
                self.assertEqual(channel.write_frame(*frame), h(case["encoded"]))
                self.assertEqual(case["frame"].split()[0], channel_name(frame[0]))

    def test_refused_payloads(self):
        for case in self.vectors["refused_payloads"]:
            with self.subTest(case["why"]), self.assertRaises(Malformed):
                channel.read_frames(h(case["payload"]))


def channel_name(kind):
    names = (
        "REQUEST",
        "RESPONSE",
        "OPEN",
        "DATA",
        "END",
        "RESET",
        "CREDIT",
        "RELAY",
        "PING",
        "PONG",
        "CLOSE",
        "ROUTE",
        "MESSAGE",
        "ANSWER",
    )
    return names[kind - 1]


class Objects(Vectors):
    def setUp(self):
        self.vectors = load("objects.json")
        self.net = network_id(self.vectors["network"])

    def test_object_ids(self):
        for case in self.vectors["object_ids"]:
            given = object_id(self.net, h(case["owner"]), case["name"], case["r"])
            self.assertEqual(given, h(case["object"]))

    def test_publications(self):
        for publication in self.vectors["publications"]:
            for case in publication["associations"]:
                association = Association(h(case["association"]), self.net, publication["now_ms"])
                self.assertEqual(association.publisher, h(publication["publisher"]))
                self.assertEqual(association.object, h(case["object"]))
                for name in ("name", "r", "withdrawn", "version", "weight"):
                    self.assertEqual(getattr(association, name), case[name])

    def test_refused(self):
        for case in self.vectors["refused"]:
            with self.subTest(case["what"]):
                read = lambda: Association(h(case["association"]), self.net, case["now_ms"])
                self.assert_refused(case["code"], read)


class Messages(Vectors):
    def test_requests_and_responses_are_in_their_one_encoding(self):
        vectors = load("ring.json")
        for case in vectors["answered_in_this_order"]:
            for part in ("request", "response"):
                self.assertEqual(encode(decode(h(case[part]))), h(case[part]))
            read_response(h(case["response"]))

    def test_answers_to_find_hold_what_verifies(self):
        vectors = load("ring.json")
        net, member = network_id(vectors["network"]), h(vectors["member"])
        answers = {case["what"]: case for case in vectors["answered_in_this_order"]}
        for what, count in (("find", 1), ("find of what is held", 1), ("find of what nobody serves", 0)):
            result = read_response(h(answers[what]["response"]))
            hop = Hop(member, result, net, vectors["now_ms"], False)
            self.assertTrue(hop.responsible)
            self.assertFalse(Hop(bytes(32), result, net, vectors["now_ms"], False).responsible)
            self.assertEqual(len(hop.entries), count)
            for association, record in hop.entries:
                publisher = Association(association, net, vectors["now_ms"]).publisher
                self.assertEqual(NodeRecord(record, net, vectors["now_ms"]).id, publisher)

    def test_refusals_carry_their_class(self):
        for case in load("ring.json")["then_refused"]:
            with self.subTest(case["what"]), self.assertRaises(Refused) as caught:
                read_response(h(case["response"]))
            self.assertIn(caught.exception.code, {*CLASSES.values(), "Superseded", "WrongClock"})


class Http(Vectors):
    def test_requests(self):
        for case in load("http.json")["requests"]:
            given = http.encode_request(case["method"], case["path"], case["headers"])
            self.assertEqual(given, h(case["encoded"]))
            self.assertEqual(http.decode_request(given), [case["method"], case["path"], case["headers"]])

    def test_answers(self):
        for case in load("http.json")["answers"]:
            status, headers, body = http.decode_answer(h(case["encoded"]) + b"body")
            self.assertEqual((status, headers, body), (case["status"], case["headers"], b"body"))

    def test_refused(self):
        for case in load("http.json")["refused_requests"]:
            with self.subTest(case["why"]), self.assertRaises(Malformed):
                http.decode_request(h(case["encoded"]))
        for case in load("http.json")["refused_answers"]:
            with self.subTest(case["why"]), self.assertRaises(Malformed):
                http.decode_answer(h(case["encoded"]))


class RpcTickets(Vectors):
    def setUp(self):
        self.vectors = load("rpc-tickets.json")

    def test_keys(self):
        vectors, secret = self.vectors, h(self.vectors["current_and_next"][0]["secret"])
        for case in vectors["current_and_next"]:
            self.assertEqual(secret, h(case["secret"]))
            key = rpc.ticket_key(secret, vectors["network"], vectors["service"])
            self.assertEqual((key, rpc.key_id(key)), (h(case["key"]), h(case["key_id"])))
            self.assertEqual(rpc.address_key(key), h(case["address_key"]))
            secret = rpc.next_secret(secret)
        self.assertEqual(rpc.router_key(h(vectors["router_secret"])), h(vectors["router_key"]))
        closed, secret = vectors["closed"], h(vectors["current_and_next"][0]["secret"])
        key = rpc.ticket_key(secret, closed["network"], vectors["service"])
        self.assertEqual((key, rpc.key_id(key)), (h(closed["key"]), h(closed["key_id"])))

    def test_tickets(self):
        for keys in self.vectors["current_and_next"]:
            case = keys["ticket"]
            key, content = h(keys["key"]), h(case["content"])
            ticket, psk = rpc.issue_ticket(key, h(case["nonce"]), content)
            self.assertEqual(ticket + psk + rpc.u(case["life_s"], 4), h(case["grant"]))
            tag = rpc.address_tag(key, h(case["address"]))
            fields = h(case["caller"]), case["expires_s"], case["issued_s"], tag
            self.assertEqual(rpc.open_ticket(key, ticket), fields)
            held = rpc.Ticket(h(case["grant"]))
            for name in ("psk", "session", "request_key"):
                self.assertEqual(getattr(held, name), h(case[name]), name)
            self.assertEqual(held.life_s, case["life_s"])

    def test_a_changed_ticket_does_not_open(self):
        case = self.vectors["current_and_next"][0]
        key, ticket = h(case["key"]), h(case["ticket"]["grant"])[:92]
        for at in (0, 5, 40, 91):
            changed = ticket[:at] + bytes([ticket[at] ^ 1]) + ticket[at + 1 :]
            self.assert_refused("BadSeal", lambda: rpc.open_ticket(key, changed))
        self.assert_refused("Malformed", lambda: rpc.open_ticket(key, ticket[:91]))


class RpcDatagrams(Vectors):
    def setUp(self):
        self.bitmaps = 0

    def check(self, tickets, case):
        getattr(self, f"check_{case['kind']}")(tickets, case)

    def check_request(self, tickets, case):
        """Sealed again it has the same bytes."""
        epoch = h(case["epoch"]) if case["epoch"] else b""
        how = case["flags"], case["packet"], epoch, case["with_ticket"]
        datagrams = [rpc.seal_request(one, case["counter"], h(case["payload"]), *how) for one in tickets]
        self.assertIn(h(case["datagram"]), datagrams)
        if case["flags"] & rpc.CONTROL and h(case["payload"])[0] == rpc.ACKNOWLEDGE:
            self.check_acknowledgement(h(case["payload"])[9:])

    def check_acknowledgement(self, data):
        following, beyond = rpc.read_acknowledgement(data)
        self.bitmaps += bool(beyond)
        self.assertEqual(rpc.write_acknowledgement(set(range(following)) | beyond), data)

    def check_response(self, tickets, case):
        for ticket in tickets:
            try:
                response = rpc.Response(h(case["datagram"]), lambda call: (ticket, call))
                break
            except Refused:
                self.assertIsNot(ticket, tickets[-1], "no ticket opens it")
        names = "answer", "acknowledgement", "refusal", "bind"
        self.assertEqual(names[response.outcome], case["outcome"])
        fields = response.epoch, response.call, response.packet
        self.assertEqual(fields, (h(case["epoch"]), case["call"], case["packet"]))
        self.assertTrue(h(case["payload"]).endswith(response.body))
        self.assertEqual(response.ticket is not None, "new_grant" in case)
        if response.ticket is not None:
            self.assertEqual(response.ticket.grant, h(case["new_grant"]))
            tickets.append(response.ticket)
        if response.outcome == rpc.REFUSAL:
            self.assertEqual(rpc.u(response.code, 2), h(case["payload"]))
        if response.outcome == rpc.ACKNOWLEDGEMENT:
            self.check_acknowledgement(response.body)

    def check_rejection(self, _tickets, case):
        fields = case["reason"], case["call"], h(case["tag"])
        self.assertEqual(rpc.read_rejection(h(case["datagram"])), fields)

    def check_forward(self, _tickets, case):
        given = rpc.forward(self.router_key, h(case["client"]), h(case["server"]), h(case["request"]))
        self.assertEqual(given, h(case["datagram"]))

    def check_feedback(self, _tickets, case):
        given = rpc.feedback(self.router_key, h(case["tag"]), case["running"])
        self.assertEqual(given, h(case["datagram"]))

    def test_conversations(self):
        for conversation in load("rpc-datagrams.json")["conversations"]:
            tickets = [rpc.Ticket(h(conversation["grant"]))]
            for number, case in enumerate(conversation["datagrams"]):
                with self.subTest(f"{conversation['what']}: {number}, {case['kind']}"):
                    self.check(tickets, case)
        self.assertGreater(self.bitmaps, 1)

    def test_what_came_through_a_router(self):
        vectors = load("rpc-routers.json")
        self.router_key, tickets = h(vectors["router_key"]), [rpc.Ticket(h(vectors["grant"]))]
        for case in vectors["forwarded"]:
            with self.subTest(case["kind"]):
                self.check(tickets, case)
        redirect, drop = vectors["redirect"], vectors["drop"]
        read = rpc.read_redirect(h(redirect["datagram"]))
        self.assertEqual(read, (redirect["call"], h(redirect["tag"]), h(redirect["server"])))
        self.assertEqual(rpc.read_drop(h(drop["datagram"])), (drop["call"], h(drop["tag"]), drop["code"]))

    def test_the_first_answer_of_many_joins(self):
        (case,) = [one for one in load("rpc-datagrams.json")["conversations"] if one["what"] == "messages of many packets"]
        ticket, assembly = rpc.Ticket(h(case["grant"])), rpc.Assembly()
        for datagram in case["datagrams"]:
            if datagram["kind"] == "response" and datagram["call"] == 0:
                response = rpc.Response(h(datagram["datagram"]), lambda call: (ticket, call))
                if response.outcome == rpc.ANSWER:
                    self.assertIsNone(assembly.message)
                    assembly.take(response.packet, response.offset, response.total, response.body)
        self.assertEqual(assembly.message, bytes(at % 256 for at in range(2000)))

    def test_a_client_drops_what_does_not_follow_the_grammar_or_open(self):
        for case in load("rpc-datagrams.json")["dropped_by_a_client"]:
            ticket = rpc.Ticket(h(case["grant"]))
            with self.subTest(case["why"]), self.assertRaises(Refused):
                datagram = h(case["datagram"])
                if datagram[:1] == bytes([rpc.REJECTION]):
                    rpc.read_rejection(datagram)
                else:
                    rpc.Response(datagram, lambda call: (ticket, call))


if __name__ == "__main__":
    unittest.main()
