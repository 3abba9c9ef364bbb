"""A program that knows nothing of a mesh: serves HTTP with `http.server`, and calls HTTP with `urllib` through whatever
proxy its environment names.

    program.py serve
    program.py call URL CALLER

`serve` prints its port; `call` tries everything at a service like its own and prints one line for each thing that works.
"""

import hashlib
import http.client
import http.server
import json
import os
import socketserver
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

LARGE = 32 * 1024 * 1024
PIECES = 5
REQUESTS = 200
THREADS = 16


class Steps:
    """Counts what a client says that it has received, so that a server can wait for it."""

    def __init__(self):
        self.condition = threading.Condition()
        self.taken = {}

    def take(self, key):
        with self.condition:
            self.taken[key] = self.taken.get(key, 0) + 1
            self.condition.notify_all()

    def wait(self, key, count):
        with self.condition:
            if not self.condition.wait_for(lambda: self.taken.get(key, 0) >= count, timeout=60):
                raise TimeoutError(f"nobody took step {count} of {key}")


STEPS = Steps()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/hello":
            self.answer(json.dumps({"language": "python", "caller": self.headers["selfsame-caller"]}).encode())
        elif url.path == "/large":
            self.answer(bytes(range(256)) * (LARGE // 256))
        elif url.path == "/stream":
            self.stream(query["key"])
        elif url.path == "/take":
            STEPS.take(query["key"])
            self.answer(b"")
        elif url.path == "/wait":
            STEPS.wait(query["key"], int(query["count"]))
            self.answer(b"")
        elif url.path == "/never":
            time.sleep(3600)
        else:
            self.answer(b"no such path", 404)

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
            if "key" in query:
                STEPS.take(query["key"])
        self.answer(digest.hexdigest().encode())

    def stream(self, key):
        """Sends one piece after the other, each once the client has taken the one before."""
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number in range(PIECES):
            STEPS.wait(key, number)
            piece = f"piece {number}\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def pieces(self):
        """The body as it comes, with a length or in chunks."""
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            left = int(self.headers.get("content-length", 0))
            while left > 0:
                piece = self.rfile.read1(min(left, 65536))
                left -= len(piece)
                yield piece
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve():
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # It ends with whoever started it.


class Client:
    def __init__(self, url, caller):
        self.url = url
        self.caller = caller

    def get(self, path, **headers):
        return urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=60)

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, data=body, method="POST")
        request.add_header("content-type", "application/octet-stream")
        return urllib.request.urlopen(request, timeout=60)

    def refusal(self, url, **headers):
        try:
            urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60)
        except urllib.error.HTTPError as error:
            problem = json.loads(error.read())
            assert error.headers["content-type"] == "application/problem+json", error.headers
            assert "proxy-status" in error.headers, error.headers
            assert problem["status"] == error.code, problem
            return error.code, problem
        raise AssertionError(f"{url} was not refused")

    def plain(self):
        with self.get("/hello") as answer:
            told = json.loads(answer.read())
        assert told["caller"] == self.caller, told
        assert told["language"] in ("python", "go"), told

    def not_found(self):
        try:
            self.get("/nothing")
        except urllib.error.HTTPError as error:
            assert error.code == 404 and "proxy-status" not in error.headers
            return
        raise AssertionError("there is no such path")

    def large_answer(self):
        with self.get("/large") as answer:
            body = answer.read()
        assert body == bytes(range(256)) * (LARGE // 256), len(body)

    def large_request(self):
        body = os.urandom(LARGE)
        with self.post("/digest", body) as answer:
            assert answer.read().decode() == hashlib.sha256(body).hexdigest()

    def streaming_answer(self):
        key = os.urandom(8).hex()
        with self.get(f"/stream?key={key}") as answer:
            for number in range(PIECES):
                assert answer.readline() == f"piece {number}\n".encode()
                self.get(f"/take?key={key}").close()
            assert answer.read() == b""

    def streaming_request(self):
        key = os.urandom(8).hex()
        sent = []

        def pieces():
            for number in range(PIECES):
                sent.append(os.urandom(1000))
                yield sent[-1]
                self.get(f"/wait?key={key}&count={number + 1}").close()

        with self.post(f"/digest?key={key}", pieces()) as answer:
            assert answer.read().decode() == hashlib.sha256(b"".join(sent)).hexdigest()

    def concurrent(self):
        def one(number):
            body = str(number).encode() * 1000
            with self.post("/digest", body) as answer:
                return answer.read().decode() == hashlib.sha256(body).hexdigest()

        with ThreadPoolExecutor(THREADS) as pool:
            assert all(pool.map(one, range(REQUESTS)))

    def tunnel(self):
        proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
        connection = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=60)
        connection.set_tunnel(urllib.parse.urlsplit(self.url).hostname, 80)
        connection.request("GET", "/hello")
        answer = connection.getresponse()
        assert answer.status == 200 and json.loads(answer.read())["caller"] == self.caller
        connection.close()

    def nobody(self):
        status, problem = self.refusal("http://nobody.mesh/")
        assert status == 503 and problem["code"] == "NoProvider" and problem["service"] == "nobody", problem

    def deadline(self):
        status, problem = self.refusal(self.url + "/never", **{"selfsame-timeout": "500ms"})
        assert status == 504 and problem["code"] == "Deadline" and len(problem["tried"]) == 1, problem

    def elsewhere(self):
        status, problem = self.refusal("http://example.com/")
        assert status == 403 and "http://NAME.mesh" in problem["detail"], problem


def call(url, caller):
    client = Client(url, caller)
    for name in [name for name, member in vars(Client).items() if is_check(name, member)]:
        getattr(client, name)()
        print(f"ok {name}", flush=True)


def is_check(name, member):
    return callable(member) and not name.startswith("_") and name not in ("get", "post", "refusal")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        call(*sys.argv[2:4])
