/** Which audit log a node keeps, and as whom. */
export type AuditSettings = {
  /** Signed metadata of the capsule. */
  metadata: Uint8Array;
  /** Secret seed of the node's key as a writer, 64 hex digits. */
  seed: string;
};

/** An audit log from two settings: the metadata in hexadecimal and the seed; `undefined` if there is none. */
export function auditOf(metadata: string | undefined, seed: string | undefined): AuditSettings | undefined {
  if (!metadata) return undefined;
  if (!/^([0-9a-f]{2})+$/.test(metadata)) {
    throw new TypeError("AUDIT: expected the signed metadata of a capsule in hexadecimal");
  }
  if (!seed || !/^[0-9a-f]{64}$/.test(seed)) {
    throw new TypeError(
      "audit log: expected a seed of 64 hexadecimal digits, as AUDIT_SEED in a Worker and in the file AUDIT_SEED_FILE elsewhere",
    );
  }
  const digits = metadata.match(/../g) ?? [];
  return { metadata: Uint8Array.from(digits, (pair) => Number.parseInt(pair, 16)), seed };
}
