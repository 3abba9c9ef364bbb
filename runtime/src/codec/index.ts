/** The boundary between a selfsame core and its host, mirrored from `guest/codec`. */
export { InputBatch, type Item, ItemCodec, type Layout, type Layouts, readItems } from "./batch.ts";
export { CborDecoder, CborEncoder } from "./cbor.ts";
export {
  type CodeName,
  codeClass,
  codeName,
  codeNames,
  codeNumber,
  codeStatus,
  codeText,
  type ErrorClass,
  MeshError,
  type Tried,
} from "./code.ts";
export {
  type Admission,
  type ClosedAdmission,
  type Config,
  decodeConfig,
  encodeConfig,
  type Role,
} from "./config.ts";
export { type Field, fromUtf8, Reader, utf8, Writer } from "./field.ts";
export { fromBase64Url, fromHex, toBase64Url, toHex } from "./hex.ts";
export {
  decodeRequestHead,
  decodeResponseHead,
  encodeRequestHead,
  encodeResponseHead,
  type HeaderList,
  MAX_HEAD,
  MAX_HEADERS,
  type RequestHead,
  type ResponseHead,
} from "./http.ts";
export { type Command, type Input, inputCodec, type PathKind } from "./input.ts";
export {
  type Entry,
  type Operation,
  readEntries,
  readOperations,
  writeEntries,
  writeOperations,
} from "./operation.ts";
export { type EventKind, type LogLevel, type Output, outputCodec } from "./output.ts";
export { problem } from "./problem.ts";
export {
  type CoreStatus,
  decodeDuplicate,
  decodeFoundNode,
  decodeProviders,
  decodeStatus,
  encodeFoundNode,
  encodeProviders,
  encodeStatus,
  type FoundNode,
  type Membership,
  type NodeInfo,
  type Provider,
  type ServiceInfo,
  type Validity,
} from "./reply.ts";

/** Version of the boundary, returned by the export `abi_version`. */
export const ABI_VERSION = 3;

/** Set in what `create` of core.wasm returns when it refuses a configuration; the rest is the code. */
export const REFUSED = 0x8000_0000;
