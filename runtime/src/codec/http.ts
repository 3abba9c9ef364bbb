import { CborDecoder, CborEncoder } from "./cbor.ts";
import { malformed, Writer } from "./field.ts";
import { checkTarget, FieldGrammar } from "./http-grammar.ts";

/** Longest head of a request or answer, in bytes: what common servers take, and one frame of a stream. */
export const MAX_HEAD: number = 16 * 1024;
/** Most headers of one message, as in common servers. */
export const MAX_HEADERS = 128;
const MAX_METHOD = 32;
const MAX_HEADER_NAME = 256;

/** Headers in their order, names in lower case; each character of a value is one byte, as in Fetch. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

/** Head of a request. */
export interface RequestHead {
  /** Method, such as `GET`. */
  readonly method: string;
  /** Path and query, from the first slash on. */
  readonly path: string;
  /** Headers. */
  readonly headers: HeaderList;
}

/** Head of an answer. */
export interface ResponseHead {
  /** Status code: 200 to 599, or 101 where the request asked for an upgrade, which the host knows. */
  readonly status: number;
  /** Headers. */
  readonly headers: HeaderList;
}

/** Encodes the head of a request. */
export function encodeRequestHead(head: RequestHead): Uint8Array {
  const encoder = new CborEncoder().array(3).text(head.method).text(head.path);
  return encodeHeaders(encoder, head.headers).finish();
}

/** Decodes the head of a request. */
export function decodeRequestHead(bytes: Uint8Array): RequestHead {
  const decoder = bounded(bytes);
  decoder.arrayOf(3);
  const method = decoder.text(MAX_METHOD);
  const path = decoder.text(MAX_HEAD);
  checkTarget(method, path);
  const headers = decodeHeaders(decoder, new FieldGrammar(method));
  decoder.finish();
  return { method, path, headers };
}

/** Encodes the head of an answer with its `u32` length before it. */
export function encodeResponseHead(head: ResponseHead): Uint8Array {
  const encoded = encodeHeaders(new CborEncoder().array(2).uint(head.status), head.headers).finish();
  return new Writer().bytes(encoded).copy();
}

/**
 * Decodes a head at the start of an answer's bytes: the head and how many bytes it took, or `undefined` while there
 * are too few.
 */
export function decodeResponseHead(bytes: Uint8Array): { head: ResponseHead; taken: number } | undefined {
  if (bytes.length < 4) return undefined;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (length > MAX_HEAD) throw malformed("the head of an answer");
  if (bytes.length < 4 + length) return undefined;
  const decoder = bounded(bytes.subarray(4, 4 + length));
  decoder.arrayOf(2);
  const status = decoder.uint(599);
  if (status < 200 && status !== 101) throw malformed("the status of an answer");
  const headers = decodeHeaders(decoder, new FieldGrammar(undefined));
  decoder.finish();
  return { head: { status, headers }, taken: 4 + length };
}

function bounded(bytes: Uint8Array): CborDecoder {
  if (bytes.length > MAX_HEAD) throw malformed("a head beyond its limit");
  return new CborDecoder(bytes);
}

function encodeHeaders(encoder: CborEncoder, headers: HeaderList): CborEncoder {
  encoder.array(headers.length);
  for (const [name, value] of headers) encoder.array(2).text(name).bytes(isomorphicEncode(value));
  return encoder;
}

function decodeHeaders(decoder: CborDecoder, grammar: FieldGrammar): HeaderList {
  return decoder.list(MAX_HEADERS, () => {
    decoder.arrayOf(2);
    const field = [decoder.text(MAX_HEADER_NAME), isomorphicDecode(decoder.bytes(MAX_HEAD))] as const;
    grammar.check(...field);
    return field;
  });
}

/** The bytes that a string of the code points 0 to 255 stands for (WHATWG Infra, "isomorphic encode"). */
function isomorphicEncode(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => {
    const code = character.charCodeAt(0);
    if (code > 0xff || character.length > 1) throw malformed("the value of a header");
    return code;
  });
}

function isomorphicDecode(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}
