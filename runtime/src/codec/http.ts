import { CborDecoder, CborEncoder } from "./cbor.ts";
import { malformed, Writer } from "./field.ts";

/** Longest head of a request or answer, in bytes: what common servers take, and one frame of a stream. */
export const MAX_HEAD: number = 16 * 1024;
/** Most headers of one message, as in common servers. */
export const MAX_HEADERS = 128;
const MAX_METHOD = 32;
const MAX_HEADER_NAME = 256;

/** Headers in their order, names in lower case. */
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
  if (!path.startsWith("/")) throw malformed("the path of a request");
  const headers = decodeHeaders(decoder);
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
  const headers = decodeHeaders(decoder);
  decoder.finish();
  return { head: { status, headers }, taken: 4 + length };
}

function bounded(bytes: Uint8Array): CborDecoder {
  if (bytes.length > MAX_HEAD) throw malformed("a head beyond its limit");
  return new CborDecoder(bytes);
}

function encodeHeaders(encoder: CborEncoder, headers: HeaderList): CborEncoder {
  encoder.array(headers.length);
  for (const [name, value] of headers) encoder.array(2).text(name).text(value);
  return encoder;
}

function decodeHeaders(decoder: CborDecoder): HeaderList {
  return decoder.list(MAX_HEADERS, () => {
    decoder.arrayOf(2);
    return [decoder.text(MAX_HEADER_NAME), decoder.text(MAX_HEAD)] as const;
  });
}
