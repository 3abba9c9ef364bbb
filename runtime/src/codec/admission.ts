import { ItemCodec } from "./batch.ts";
import { bytes, bytes32, count, flag, text, u16, u32 } from "./field.ts";

/** Version of the boundary of admission.wasm, returned by its export `abi_version`. */
export const ADMISSION_ABI_VERSION = 0x0003_0001;

/** What `derive` of an admission module makes; the sentences are those of `guest/codec/src/admission.rs`. */
export type AdmissionDerive =
  /** The name of a peer's TXT record, as text. */
  | { type: "PeerName"; key: Uint8Array; domain: string }
  /** The name of the TXT record of a network's authority, as text. */
  | { type: "AuthorityName"; domain: string }
  /** A query for the TXT records of a name. */
  | { type: "Query"; id: number; name: string }
  /**
   * A signed update of a zone: its MAC of 32 bytes, then the message. Changes: a name and a value each, which replaces all values of the
   * name; an empty one leaves none. The key's secret is secret.
   */
  | {
      type: "Update";
      id: number;
      zone: string;
      key_name: string;
      secret: Uint8Array;
      now_s: number;
      ttl_s: number;
      changes: Uint8Array;
    }
  /** The line of a zone file with a value, as text. */
  | { type: "ZoneLine"; name: string; ttl_s: number; value: Uint8Array }
  /** The public key of a closed network's authority, 32 bytes, and the network's id. The seed is secret. */
  | { type: "Authority"; seed: Uint8Array; network: string }
  /** A certificate of the authority for a node's key; a leaf's has no address. */
  | {
      type: "Certificate";
      seed: Uint8Array;
      network: string;
      key: Uint8Array;
      serial: number;
      not_before_ms: number;
      expiry_ms: number;
      address: string;
    }
  /**
   * A list of the authority of the keys that it admits no more: of each 32 bytes, and the time u64 before which its certificates count no
   * more.
   */
  | { type: "Revocations"; seed: Uint8Array; network: string; serial: number; revoked: Uint8Array };

/** What `verify` of an admission module checks. */
export type AdmissionVerify =
  /** The response to a query, over UDP or not: an `AdmissionOutcome`. */
  | { type: "Response"; id: number; name: string; is_datagram: boolean; message: Uint8Array }
  /** The response to an update: nothing. */
  | {
      type: "Updated";
      id: number;
      key_name: string;
      secret: Uint8Array;
      mac: Uint8Array;
      now_s: number;
      message: Uint8Array;
    }
  /**
   * A certificate for a key, whether or not it counts now: the holder's id, serial u64, from when and until when it counts, each u64, and
   * the address as text.
   */
  | { type: "Certificate"; authority: Uint8Array; network: string; key: Uint8Array; certificate: Uint8Array };

/** What a response says of a name. */
export type AdmissionOutcome =
  /** It has values, which are good for so many seconds: each is a field of bytes. Whether DNSSEC has verified them. */
  | { type: "Found"; ttl_s: number; is_authentic: boolean; values: Uint8Array }
  /** It has none, for so many seconds. */
  | { type: "Absent"; ttl_s: number }
  /** The response did not fit its datagram: ask over TCP. */
  | { type: "Truncated" };

/** The codec of what `derive` of admission.wasm takes. */
export const admissionDeriveCodec: ItemCodec<AdmissionDerive> =
  /* @__PURE__ */ new ItemCodec<AdmissionDerive>({
    PeerName: [1, { key: bytes32, domain: text }],
    AuthorityName: [2, { domain: text }],
    Query: [3, { id: u16, name: text }],
    Update: [
      4,
      { id: u16, zone: text, key_name: text, secret: bytes, now_s: count, ttl_s: u32, changes: bytes },
    ],
    ZoneLine: [5, { name: text, ttl_s: u32, value: bytes }],
    Authority: [32, { seed: bytes32, network: text }],
    Certificate: [
      33,
      {
        seed: bytes32,
        network: text,
        key: bytes32,
        serial: count,
        not_before_ms: count,
        expiry_ms: count,
        address: text,
      },
    ],
    Revocations: [34, { seed: bytes32, network: text, serial: count, revoked: bytes }],
  });

/** The codec of what `verify` of admission.wasm takes. */
export const admissionVerifyCodec: ItemCodec<AdmissionVerify> =
  /* @__PURE__ */ new ItemCodec<AdmissionVerify>({
    Response: [1, { id: u16, name: text, is_datagram: flag, message: bytes }],
    Updated: [2, { id: u16, key_name: text, secret: bytes, mac: bytes32, now_s: count, message: bytes }],
    Certificate: [32, { authority: bytes32, network: text, key: bytes32, certificate: bytes }],
  });

/** The codec of what admission.wasm says of a response. */
export const admissionOutcomeCodec: ItemCodec<AdmissionOutcome> =
  /* @__PURE__ */ new ItemCodec<AdmissionOutcome>({
    Found: [1, { ttl_s: u32, is_authentic: flag, values: bytes }],
    Absent: [2, { ttl_s: u32 }],
    Truncated: [3, {}],
  });
