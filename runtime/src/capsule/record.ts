import { MeshError } from "../codec/code.ts";
import { Reader } from "../codec/field.ts";
import { toHex } from "../codec/hex.ts";

/** The header of a record. */
export interface RecordHeader {
  /** What the body is: bytes of the application, sub-records, or the owner's word on who writes and reads. */
  readonly kind: "plain" | "tree" | "epoch";
  /** The number of the writer that it names, 0 for the owner; `Authorship` says whether that one has signed it. */
  readonly writer: number;
  /** The epoch that it was written in. */
  readonly epoch: number;
  /** How many records its writer had written before it. */
  readonly sequence: number;
  /** Length of the body in bytes, as it is stored. */
  readonly bodyLength: number;
  /** Names of earlier records, 64 hex digits each: the first is the primary parent. */
  readonly backpointers: readonly string[];
}

/** Who answers for a record that is proven: one of the two is there. */
export interface Authorship {
  /** The number of the writer that the record names, who has signed it, or a later record of its own that leads there. */
  readonly signedBy?: number;
  /** The number of another writer, who has signed what leads there: nothing shows that the one that the record names made it. */
  readonly vouchedForBy?: number;
}

/** Reads who answers for a record. */
export function readAuthorship(reader: Reader): Authorship {
  const kind = reader.u8();
  const signer = reader.u16();
  if (kind === 1) return { signedBy: signer };
  if (kind === 2) return { vouchedForBy: signer };
  throw new MeshError("BadInput");
}

const KINDS = ["plain", "tree", "epoch"] as const;

/** Decodes the header of a record that the module has verified. */
export function decodeHeader(encoded: Uint8Array): RecordHeader {
  const reader = new Reader(encoded);
  const pointers = reader.u8();
  const kind = KINDS[reader.u8() - 1];
  if (kind === undefined) throw new MeshError("BadHeader");
  const [writer, epoch, sequence, bodyLength] = [
    reader.u16(),
    reader.u32(),
    Number(reader.u64()),
    reader.u32(),
  ];
  reader.take(32);
  const backpointers = Array.from({ length: pointers }, () => toHex(reader.take(32)));
  return { kind, writer, epoch, sequence, bodyLength, backpointers };
}

/** An error that says where. */
export class PlacedError extends MeshError {
  /** An offset, or the number of the element where elements are given. */
  readonly at: number;

  /** `why` is for the operator alone. */
  constructor(code: number, at: number, why?: string) {
    super(code, `${new MeshError(code).message}${why ?? `, at ${at}`}`);
    this.at = at;
  }

  /** The answer for whoever asked, without what only the operator is to know. */
  override getResponse(): Response {
    return new MeshError(this.code).getResponse();
  }
}

/** An error that says where: an offset, or the number of the element where elements are given. */
export function errorAt(code: number, at: number): PlacedError {
  return new PlacedError(code, at);
}
