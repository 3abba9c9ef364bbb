#!/usr/bin/env python3
"""Finds a service of a selfsame network and calls it.

    client.py --network twiitr --join ws://127.0.0.1:7000#ID call https://check.mesh/ --owner KEY -d '{"user":"ada"}'

Written from docs/specification alone, to show that the specification suffices.
"""

import argparse
import os
import sys
from urllib.parse import urlsplit

from peer import http
from peer.codec import Refused
from peer.connection import Connection, Ended, TimedOut
from peer.identity import Identity, address_problem, network_id
from peer.ring import Seeker
from peer.transport import Closed, dial


class Client:
    """A peer that finds names and calls them."""

    def __init__(self, network, bootstrap, seed=None, allow_private=False):
        address, separator, target = bootstrap.partition("#")
        if not separator:
            raise Refused("UnpinnedBootstrap", "write the address as URL#PEER-ID")
        self.net = network_id(network)
        self.identity = Identity(seed or os.urandom(32), self.net)
        self._allow_private = allow_private
        self._bootstrap = bytes.fromhex(target)
        self._connections = {self._bootstrap: Connection(dial(address), self.identity, self._bootstrap)}

    def connect(self, peer, record):
        """A connection with a peer, the one there is or a new one by an address of its record."""
        for address in record.addresses if record and peer not in self._connections else []:
            if address_problem(address, self._allow_private):
                continue
            try:
                self._connections[peer] = Connection(self._path(address, peer), self.identity, peer)
                break
            except (Closed, Ended, Refused, TimedOut):
                continue
        if peer not in self._connections:
            raise Closed("none of its addresses can be dialled")
        return self._connections[peer]

    def _path(self, address, peer):
        if not address.startswith("relay:"):
            return dial(address)
        member = bytes.fromhex(address.removeprefix("relay:"))
        return self.connect(member, self.seeker().find_node(member)).relay(peer)

    def seeker(self):
        """What finds names, beginning with the bootstrap."""
        ask = lambda peer, record, body: self.connect(peer, record).request(body, 3)
        return Seeker(self.net, ask, {self._bootstrap: None}, self._allow_private)

    def find(self, name, owner=b""):
        """Who serves a name; an empty owner means the unowned name."""
        return self.seeker().find(owner, name)

    def fetch(self, url, owner=b"", method="GET", headers=(), body=b""):
        """Status, headers and body of a service's answer."""
        parts = urlsplit(url)
        name = parts.hostname.removesuffix(".mesh")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = http.encode_request(method, path, headers)
        provider = self.find(name, owner)[0]
        connection = self.connect(provider.id, provider.record)
        return http.decode_answer(connection.call(owner, name, head, body))

    def close(self):
        for connection in self._connections.values():
            connection.close()


def main():
    parser = argparse.ArgumentParser(description="Finds a service of a selfsame network and calls it.")
    parser.add_argument("--network", required=True)
    parser.add_argument("--join", required=True, metavar="URL#ID")
    parser.add_argument("--allow-private", action="store_true", help="dial private and loopback addresses")
    commands = parser.add_subparsers(dest="command", required=True)
    find = commands.add_parser("find")
    find.add_argument("name")
    call = commands.add_parser("call")
    call.add_argument("url", metavar="https://NAME.mesh/path")
    call.add_argument("-X", "--request", metavar="METHOD")
    call.add_argument("-d", "--body", default="")
    for command in (find, call):
        command.add_argument("--owner", default="", metavar="KEY")
    arguments = parser.parse_args()
    owner = bytes.fromhex(arguments.owner)
    try:
        client = Client(arguments.network, arguments.join, allow_private=arguments.allow_private)
        if arguments.command == "find":
            for provider in client.find(arguments.name, owner):
                print(provider.id.hex(), provider.weight, provider.version, *provider.record.addresses)
        else:
            method = arguments.request or ("POST" if arguments.body else "GET")
            body = arguments.body.encode()
            status, _, answer = client.fetch(arguments.url, owner, method, body=body)
            print(status)
            sys.stdout.buffer.write(answer)
        client.close()
    except (Refused, Closed, Ended, TimedOut) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
