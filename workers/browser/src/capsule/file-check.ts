import { type CapsuleModule, type ProofInfo, toBase32 } from "selfsame/capsule";

import { count } from "./model.ts";

/** With what the two kinds of files begin. */
const EXPORT = "selfsame capsule 1\n";
const PROOF = "selfsame proof 1\n";
/** A proof file is not longer; the module refuses it. */
const MAX_PROOF_BYTES = 8 * 1024 * 1024;

/** What came of a file: one sentence, and what it proves if it is a proof file. */
export type Checked = { isTrue: boolean; text: string; proof?: ProofInfo };

/** Verifies an exported capsule, of any length, or a proof file; nobody is asked. */
export async function checkFile(file: Blob & { name?: string }, tools: CapsuleModule): Promise<Checked> {
  const name = file.name ?? "The file";
  const beginning = await file.slice(0, EXPORT.length).text();
  try {
    if (beginning.startsWith(PROOF)) return await checkProof(file, tools);
    if (beginning === EXPORT) return await checkExport(file, tools);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { isTrue: false, text: `${name} is refused: ${why}` };
  }
  return { isTrue: false, text: `${name} is neither an exported capsule nor a proof of a record` };
}

async function checkProof(file: Blob, tools: CapsuleModule): Promise<Checked> {
  const bytes = new Uint8Array(await file.slice(0, MAX_PROOF_BYTES).arrayBuffer());
  const proof = tools.verifyProof(bytes);
  const capsule = toBase32(proof.capsule);
  const text = `True: a writer of the capsule ${capsule} has signed for this record. Nobody was asked; whether the writer was revoked since then the file cannot tell.`;
  return { isTrue: true, text, proof };
}

async function checkExport(file: Blob, tools: CapsuleModule): Promise<Checked> {
  const { capsule, records, holes } = await tools.verifyExport(chunksOf(file));
  const missing =
    holes === 0 ? "nothing is missing" : `${count(holes, "record")} that others point to are not in it`;
  const text = `True: the capsule ${toBase32(capsule)} with ${count(records, "record")}, each signed for by a writer; ${missing}. Nobody was asked.`;
  return { isTrue: true, text };
}

/** The file in pieces, so that one larger than the memory is checked as well. */
async function* chunksOf(file: Blob): AsyncGenerator<Uint8Array> {
  const reader = file.stream().getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
