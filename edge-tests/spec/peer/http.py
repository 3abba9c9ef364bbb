"""docs/specification/http.md: requests and answers on a stream."""

from .codec import Malformed, decode, encode, expect, is_list, is_text, is_uint

MAX_HEAD = 16_384
MAX_HEADERS = 128


def _are_headers(headers):
    return is_list(headers, 0, MAX_HEADERS) and all(
        is_list(pair, 2) and is_text(pair[0], 0, 256) and is_text(pair[1], 0, MAX_HEAD) for pair in headers
    )


def encode_request(method, path, headers=()):
    return encode([method, path, [list(pair) for pair in headers]])


def decode_request(head):
    expect(len(head) <= MAX_HEAD)
    request = decode(head)
    expect(is_list(request, 3) and is_text(request[0], 0, 32) and is_text(request[1], 1, MAX_HEAD))
    expect(request[1].startswith("/") and _are_headers(request[2]))
    return request


def decode_answer(data):
    """Status, headers and body of a whole answer."""
    length = int.from_bytes(data[:4], "little")
    if len(data) < 4 or length > MAX_HEAD or length > len(data) - 4:
        raise Malformed("the head of an answer")
    answer = decode(data[4 : 4 + length])
    expect(is_list(answer, 2) and is_uint(answer[0], 599) and _are_headers(answer[1]))
    expect(answer[0] >= 200 or answer[0] == 101)
    return answer[0], answer[1], data[4 + length :]
