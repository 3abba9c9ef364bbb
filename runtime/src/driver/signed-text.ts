import { type CodeName, MeshError } from "../codec/code.ts";
import { fromBase64Url } from "../codec/hex.ts";

/** Longest certificate, in bytes. */
const MAX_CERTIFICATE = 320;
/** Longest list of revocations, in bytes: 256 keys with a time each, and what is around them; as in the core. */
const MAX_REVOCATIONS: number = 256 * 44 + 256;

interface Kind {
  readonly code: CodeName;
  readonly what: string;
  readonly command: string;
  readonly most: number;
}

const CERTIFICATE: Kind = {
  code: "BadCertificate",
  what: "a certificate",
  command: "selfsame authority sign",
  most: MAX_CERTIFICATE,
};
const REVOCATIONS: Kind = {
  code: "BadMessage",
  what: "a list of revocations",
  command: "selfsame authority revoke",
  most: MAX_REVOCATIONS,
};

/** Reads a certificate: its bytes, or the text that `selfsame authority sign` prints. */
export function readCertificate(given: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return read(given, CERTIFICATE);
}

/** Reads a list of revocations: its bytes, or the text that `selfsame authority revoke` prints. */
export function readRevocations(given: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return read(given, REVOCATIONS);
}

function read(given: string | Uint8Array, kind: Kind): Uint8Array<ArrayBuffer> {
  const { code, what, command, most } = kind;
  const bytes = typeof given === "string" ? decoded(given, kind) : given;
  if (!(bytes instanceof Uint8Array) || bytes.length === 0)
    throw new MeshError(
      code,
      `${what} is the line of base64url text that \`${command}\` prints, or its bytes`,
    );
  if (bytes.length > most)
    throw new MeshError("TooLarge", `${what} has at most ${most} bytes (got ${bytes.length})`);
  return bytes.slice();
}

/** Decodes a text; one that is too long is not looked at. */
function decoded(given: string, { what, most }: Kind): Uint8Array | undefined {
  const text = given.trim();
  if (text.length > Math.ceil((most * 4) / 3))
    throw new MeshError("TooLarge", `${what} has at most ${most} bytes (got ${text.length} characters)`);
  try {
    return fromBase64Url(text, what);
  } catch {
    return undefined;
  }
}
