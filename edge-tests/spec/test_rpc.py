"""The client of the encrypted RPC against live replicas, of the Rust host and in Node, over UDP and HTTP."""

import json
import os
import time
import unittest

from client import Client
from peer import rpc
from peer.rpc_client import Failed, RpcClient

RING = json.loads(os.environ["SPEC_RING"])
SERVICES = ("rpc-rust", "rpc-node", "rpc-http")
LARGE = bytes(at % 251 for at in range(300_000))


class Rpc(unittest.TestCase):
    """Calls through the mesh for tickets, then without it."""

    def setUp(self):
        self.mesh = Client(RING["network"], RING["host"], allow_private=True)
        self.addCleanup(self.mesh.close)

    def client(self, service):
        def fetch():
            status, _, body = self.mesh.fetch(f"https://{service}.mesh{rpc.WELL_KNOWN}", method="POST")
            self.assertEqual(status, 200)
            return body

        client = RpcClient(fetch)
        self.addCleanup(client.close)
        return client

    def everywhere(self, check, services=SERVICES):
        for service in services:
            with self.subTest(service):
                check(self.client(service))

    def test_an_idempotent_call_takes_one_datagram_of_early_data(self):
        def check(client):
            self.assertEqual(client.call(b"ping"), b"ping")
            self.assertEqual((client.datagrams_sent, client.attempts), (1, 1))
            self.assertEqual(client.call(b"who").decode(), self.mesh.identity.id.hex())

        self.everywhere(check)

    def test_a_call_that_is_not_idempotent_learns_the_epoch_by_a_probe(self):
        def check(client):
            self.assertEqual(client.call(b"ping", idempotent=False), b"ping")
            self.assertEqual((client.datagrams_sent, client.attempts), (2, 1))

        self.everywhere(check)

    def test_a_replica_of_calls_that_are_not_idempotent_has_them_bound(self):
        client = self.client("rpc-bound")
        self.assertEqual(client.call(b"ping"), b"ping")
        self.assertEqual((client.datagrams_sent, client.attempts), (2, 2))

    def test_a_datagram_that_comes_again_is_carried_out_once(self):
        def check(client):
            counts = [client.call(b"count"), *client.repeat_last()]
            self.assertEqual(len(set(counts)), 1)
            self.assertEqual(len(counts), 3)
            self.assertNotEqual(client.call(b"count"), counts[0])

        self.everywhere(check)

    def test_a_request_of_many_packets(self):
        def check(client):
            self.assertEqual(client.call(LARGE), LARGE)
            self.assertGreater(client.acknowledgements, 1)

        self.everywhere(check, ("rpc-rust", "rpc-node", "rpc-bound"))

    def test_an_answer_of_many_packets(self):
        self.everywhere(lambda client: self.assertEqual(client.call(b"large"), LARGE))

    def test_a_handler_that_fails_is_a_refusal(self):
        def check(client):
            with self.assertRaises(Failed) as caught:
                client.call(b"fail")
            self.assertEqual(caught.exception.code, 0x0805)
            self.assertEqual(client.call(b"ping"), b"ping")

        self.everywhere(check)

    def test_a_ticket_of_a_replaced_key_is_rejected_and_another_one_fetched(self):
        def check(service):
            client, stale = self.client(service), self.client(service)
            client.call(b"replace the key")
            self.assertEqual(stale.call(b"ping"), b"ping")
            self.assertEqual((stale.tickets_fetched, stale.attempts), (2, 2))

        for service in ("rpc-node", "rpc-http"):
            with self.subTest(service):
                check(service)

    def changed(self, client, at):
        """Changes a byte of the client's ticket."""
        ticket = bytearray(client.ticket.ticket)
        ticket[at] ^= 1
        client.ticket.ticket = bytes(ticket)

    def test_a_ticket_of_a_key_that_nobody_has_is_rejected(self):
        def check(client):
            self.changed(client, 0)
            self.assertEqual(client.call(b"ping"), b"ping")
            self.assertEqual((client.tickets_fetched, client.attempts), (2, 2))

        self.everywhere(check)

    def test_a_forged_ticket_gets_no_answer(self):
        def check(client):
            self.changed(client, 40)
            with self.assertRaises(Failed) as caught:
                client.call(b"ping", timeout_s=0.5)
            self.assertEqual(str(caught.exception), "TimedOut")

        self.everywhere(check, ("rpc-rust", "rpc-node"))

    def test_a_session_that_nobody_began_is_rejected_and_the_ticket_sent(self):
        def check(client):
            client.pretend_session()
            self.assertEqual(client.call(b"ping"), b"ping")
            self.assertEqual((client.tickets_fetched, client.attempts), (1, 2))

        self.everywhere(check)

    def test_a_call_that_is_not_idempotent_is_sealed_once(self):
        def check(client):
            for _ in ("no session", "another life of a session"):
                client.pretend_session()
                with self.assertRaises(Failed) as caught:
                    client.call(b"count", idempotent=False)
                self.assertEqual(str(caught.exception), "OutcomeUnknown")
                before = client.attempts
                client.call(b"ping")
            self.assertGreater(client.attempts, before)

        self.everywhere(check)

    def test_a_new_ticket_comes_after_half_of_the_life(self):
        def check(client):
            life_s, begun = client.ticket.life_s, time.monotonic()
            while client.tickets_renewed == 0 and time.monotonic() < begun + life_s:
                self.assertEqual(client.call(b"ping"), b"ping")
            self.assertGreater(time.monotonic() - begun, life_s / 2 - 1)
            self.assertEqual((client.tickets_renewed, client.tickets_fetched), (1, 1))
            self.assertEqual(client.call(b"who").decode(), self.mesh.identity.id.hex())

        self.everywhere(check)


if __name__ == "__main__":
    unittest.main()
