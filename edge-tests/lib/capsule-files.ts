import { memory } from "selfsame";
import { CapsuleModule, capsuleModule, openCapsule, openReplica, replicaHandler } from "selfsame/capsule";
import { Writer } from "selfsame/codec";

/** Files of a new capsule of one record. */
export interface CapsuleFiles {
  /** An exported capsule. */
  readonly exported: Uint8Array;
  /** A proof of its record. */
  readonly proof: Uint8Array;
}

const OWNER = "77".repeat(32);
/** Of the record's parts that are at the end of a proof file: the header without backpointers, and the signature. */
const HEADER_BYTES = 52;
const SIGNATURE_BYTES = 64;

/** Writes a capsule of one record and returns it in both kinds of files. */
export async function writeFiles(content: string): Promise<CapsuleFiles> {
  const tools = await CapsuleModule.instantiate(await capsuleModule());
  const replica = await openReplica({ storage: memory() });
  const metadata = tools.signMetadata({ seed: OWNER, description: "files" });
  await replica.hold(metadata);
  const handler = replicaHandler(replica);
  const capsule = await openCapsule({
    metadata,
    seed: OWNER,
    servers: [{ key: replica.key, url: "https://replica/" }],
    storage: memory(),
    fetch: (input, init) => handler(new Request(input, init)),
  });
  const body = new TextEncoder().encode(content);
  const [name = ""] = await capsule.append([body]);
  const proof = await capsule.prove(name);
  await capsule.close();
  await replica.close();
  // The proof ends with the one header, the signature of it, 1 and the body.
  const end = proof.length - body.length - 1;
  const signature = proof.slice(end - SIGNATURE_BYTES, end);
  const header = proof.slice(end - SIGNATURE_BYTES - HEADER_BYTES, end - SIGNATURE_BYTES);
  const exported = new Writer().raw(new TextEncoder().encode("selfsame capsule 1\n")).bytes(metadata).u32(0);
  exported.u8(2).raw(header).raw(signature).raw(body).u8(0).u64(1n).u32(0);
  return { exported: exported.copy(), proof };
}
