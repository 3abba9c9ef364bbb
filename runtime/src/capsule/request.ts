import { MeshError } from "../codec/code.ts";
import { Reader, Writer } from "../codec/field.ts";
import { randomBytes } from "../driver/random.ts";

const VERSION = 1;
/** Version and code of a response. */
const HEAD_BYTES = 3;
const SESSION_BYTES = 16;
const NONCE_BYTES = 32;
/** Where a writer's key would be whose newest record is asked for. */
const NO_WRITER = new Uint8Array(32);
const CREATE = 1;
const QUERY_FRESH = 7;

/** Asks a replica to store a capsule by its signed metadata. */
export function createRequest(capsule: Uint8Array, metadata: Uint8Array): Uint8Array<ArrayBuffer> {
  return begin(capsule).u8(CREATE).bytes(metadata).copy();
}

/** Asks a replica which records are the newest. */
export function freshRequest(capsule: Uint8Array): Uint8Array<ArrayBuffer> {
  return begin(capsule).u8(QUERY_FRESH).raw(randomBytes(NONCE_BYTES)).raw(NO_WRITER).copy();
}

/** Why a request was refused as a whole; one that is too short says nothing. */
export function refusalOf(response: Uint8Array): MeshError | undefined {
  if (response.length < HEAD_BYTES) return;
  const reader = new Reader(response);
  reader.u8();
  const refused = reader.u16();
  return refused === 0 ? undefined : new MeshError(refused);
}

/** What the one operation of a request gave; throws why it, or the request, was refused. */
export function readResult(response: Uint8Array): Reader {
  const reader = new Reader(response);
  reader.u8();
  const refused = reader.u16();
  reader.u32();
  const failed = refused || reader.u16();
  if (failed !== 0) throw new MeshError(failed);
  return reader;
}

/** A request that belongs to no session. */
function begin(capsule: Uint8Array): Writer {
  return new Writer().u8(VERSION).raw(capsule).raw(randomBytes(SESSION_BYTES)).u32(0);
}
