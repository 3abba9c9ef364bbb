"""docs/specification/http.md: requests and answers on a stream."""

import re

from .codec import Malformed, decode, encode, expect, is_bytes, is_list, is_text, is_uint

MAX_HEAD = 16_384
MAX_HEADERS = 128
OF_ONE_HOP = set(
    "accept-encoding connection expect host keep-alive proxy-authenticate proxy-authorization"
    " proxy-connection te trailer transfer-encoding".split()
)
# Fetch writes these in capitals: a host that does not takes another spelling for another method.
CAPITAL_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT")
TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
VALUE = re.compile(rb"([!-~\x80-\xff]([\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
PATH = re.compile(r"/[!$-;=@-\[\]_a-z|~]*(\?[!$-&(-;=?-~]*)?")
DOTS = re.compile(r"/(\.|%2e){1,2}(/|$)", re.IGNORECASE)
LENGTH = re.compile(rb"[0-9]{1,15}")


def _check_headers(headers, method=None):
    """Gives the headers with their values as text, one character for each byte."""
    expect(is_list(headers, 0, MAX_HEADERS))
    for pair in headers:
        expect(is_list(pair, 2) and is_text(pair[0], 1, 256) and is_bytes(pair[1], 0, MAX_HEAD))
        name, value = pair
        expect(TOKEN.fullmatch(name) and name == name.lower() and VALUE.fullmatch(value))
        expect(name not in OF_ONE_HOP)
        expect(name != "upgrade" or (method, value) == ("GET", b"websocket"))
        if name == "content-length":
            expect(LENGTH.fullmatch(value) and (value == b"0" or method not in ("GET", "HEAD")))
    expect([name for name, _ in headers].count("content-length") <= 1)
    return [[name, value.decode("latin-1")] for name, value in headers]


def _is_target(method, path):
    capitals = method.upper()
    is_spelled = method == capitals or capitals not in CAPITAL_METHODS
    is_method = TOKEN.fullmatch(method) and is_spelled and capitals not in ("CONNECT", "TRACE", "TRACK")
    is_path = PATH.fullmatch(path) and not DOTS.search(path.split("?")[0])
    return is_method and (is_path or (method, path) == ("OPTIONS", "*"))


def encode_request(method, path, headers=()):
    return encode([method, path, [[name, value.encode("latin-1")] for name, value in headers]])


def decode_request(head):
    expect(len(head) <= MAX_HEAD)
    request = decode(head)
    expect(is_list(request, 3) and is_text(request[0], 1, 32) and is_text(request[1], 1, MAX_HEAD))
    method, path, headers = request
    expect(_is_target(method, path))
    return [method, path, _check_headers(headers, method)]


def decode_answer(data):
    """Status, headers and body of a whole answer."""
    length = int.from_bytes(data[:4], "little")
    if len(data) < 4 or length > MAX_HEAD or length > len(data) - 4:
        raise Malformed("the head of an answer")
    answer = decode(data[4 : 4 + length])
    expect(is_list(answer, 2) and is_uint(answer[0], 599))
    status, headers = answer
    expect(status >= 200 or status == 101)
    return status, _check_headers(headers), data[4 + length :]
