"""docs/specification/transports.md: WebSocket and HTTPS POST, the side that dials."""

import http.client
import os
import queue
import threading
import time
from urllib.parse import urlsplit

import websockets.sync.client
from websockets.exceptions import ConnectionClosed

from .codec import field

MAX_FRAME = 65_536
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0


class Closed(Exception):
    """The path is closed."""


def dial(address):
    """Opens a path to an address without its fragment."""
    scheme = urlsplit(address).scheme
    if scheme in ("ws", "wss"):
        return WebSocketPath(address)
    if scheme in ("http", "https"):
        return ExchangePath(address)
    raise Closed(f"{scheme} cannot be dialled from here")


def _with_path(address):
    parts = urlsplit(address)
    return parts._replace(fragment="", path="/.mesh" if parts.path in ("", "/") else parts.path)


class WebSocketPath:
    """One frame is one binary message."""

    def __init__(self, address):
        try:
            self._socket = websockets.sync.client.connect(
                _with_path(address).geturl(),
                subprotocols=["selfsame.1"],
                compression=None,
                max_size=MAX_FRAME,
                # The protocol has a keep-alive of its own, in text.
                ping_interval=None,
                proxy=None,
                legacy=True,
            )
        except Exception as error:
            raise Closed(str(error)) from None
        if self._socket.subprotocol != "selfsame.1":
            self._socket.close()
            raise Closed("the server does not speak selfsame.1")

    def send(self, *frames):
        try:
            for frame in frames:
                self._socket.send(frame)
        except ConnectionClosed as error:
            raise Closed(str(error)) from None

    def receive(self, timeout_s):
        """Frames that have come, at least one unless the time is over."""
        try:
            message = self._socket.recv(timeout=timeout_s)
        except TimeoutError:
            return []
        except ConnectionClosed as error:
            raise Closed(str(error)) from None
        return [message] if isinstance(message, bytes) else []

    def keep_alive(self, timeout_s):
        """Sends the text of the keep-alive and gives the answer."""
        self._socket.send("ping")
        return self._socket.recv(timeout=timeout_s)

    def close(self):
        self._socket.close()


class ExchangePath:
    """Frames go as bodies of POSTs and come back as bodies of their answers, as they arrive."""

    def __init__(self, address):
        url = _with_path(address)
        self._target = url.path + (f"?{url.query}" if url.query else "")
        make = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._connect = lambda: make(url.hostname, url.port, timeout=30)
        self._token = os.urandom(16).hex()
        self._came = queue.Queue()
        self._open = 0
        self._pause_s = 0.0
        self._lock = threading.Lock()

    def send(self, *frames):
        self._pause_s = 0.0
        self._post(b"".join(field(frame) for frame in frames))

    def receive(self, timeout_s):
        until = time.monotonic() + timeout_s
        while True:
            if self._open == 0 and self._came.empty():
                time.sleep(min(self._pause_s, max(0.0, until - time.monotonic())))
                self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
                self._post(b"")
            try:
                frames = [self._came.get(timeout=max(0.0, min(0.05, until - time.monotonic())))]
            except queue.Empty:
                if time.monotonic() >= until:
                    return []
                continue
            while not self._came.empty():
                frames.append(self._came.get())
            for frame in frames:
                if isinstance(frame, Closed):
                    raise frame
            return frames

    def _post(self, body):
        """Begins a POST; returns with the head of its answer, so that what follows cannot overtake it."""
        connection = self._connect()
        headers = {"content-type": "application/selfsame", "selfsame-path": self._token}
        try:
            connection.request("POST", self._target, body, headers)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Closed(str(error)) from None
        if response.status != 200:
            connection.close()
            raise Closed(f"status {response.status}")
        with self._lock:
            self._open += 1
        threading.Thread(target=self._take, args=(connection, response), daemon=True).start()

    def _take(self, connection, response):
        """Hands on the frames of an answer as they arrive."""
        rest = b""
        try:
            while piece := response.read1(MAX_FRAME):
                rest += piece
                while len(rest) >= 4 and len(rest) - 4 >= int.from_bytes(rest[:4], "little"):
                    end = 4 + int.from_bytes(rest[:4], "little")
                    self._came.put(rest[4:end])
                    rest = rest[end:]
            if rest:
                self._came.put(Closed("an answer ends within a frame"))
        except (OSError, http.client.HTTPException) as error:
            self._came.put(Closed(str(error)))
        finally:
            connection.close()
            with self._lock:
                self._open -= 1

    def close(self):
        """There is no message for it: the other side closes the path after a while."""
