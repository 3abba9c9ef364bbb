import { InputBatch, readItems } from "../codec/batch.ts";
import { type ModuleInput, moduleInputCodec, moduleOutputCodec } from "../codec/client.ts";
import { MeshError } from "../codec/code.ts";
import { concat } from "../concat.ts";
import type { CapsuleModule, ExportInfo } from "./module.ts";
import { nameOf } from "./name.ts";
import { type Ask, answered } from "./peers.ts";
import { errorAt } from "./record.ts";

/** Most bytes of a file that are given to the module at a time. */
const CHUNK_BYTES: number = 1024 * 1024;
/** What is written is given in pieces of about so many bytes. */
const PIECE_BYTES: number = 64 * 1024;

/**
 * Writes the export file of a capsule, whose name is in base32, out of what one replica gives, all of which is verified; it can
 * leave out what is newest. Whoever has the same proven records gives the same bytes. Returns what the file holds.
 */
export async function* exportCapsule(
  module: CapsuleModule,
  name: string,
  ask: Ask,
): AsyncGenerator<Uint8Array<ArrayBuffer>, ExportInfo> {
  const handle = module.createExporter(nameOf(name));
  const given = new AbortController();
  try {
    let pieces: Uint8Array[] = [];
    let bytes = 0;
    for (let said = step(module, handle); ; ) {
      pieces.push(said.bytes);
      bytes += said.bytes.length;
      if (bytes >= PIECE_BYTES || (said.end !== undefined && bytes > 0)) {
        yield concat(pieces);
        [pieces, bytes] = [[], 0];
      }
      if (said.end !== undefined) return said.end;
      said = await askOn(module, handle, said, (message) => ask(message, given.signal));
    }
  } finally {
    given.abort();
    module.destroy(handle);
  }
}

/**
 * Stores the capsule of an export file of any length at a replica, while it comes. Only what is verified is stored; of a file
 * that is wrong somewhere what comes before that. Resolves with what the file holds.
 */
export async function importCapsule(
  module: CapsuleModule,
  file: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ask: Ask,
): Promise<ExportInfo> {
  const handle = module.createImporter();
  const given = new AbortController();
  const feed = async (input: ModuleInput): Promise<ExportInfo | undefined> => {
    let said = step(module, handle, input);
    while (said.ask !== undefined)
      said = await askOn(module, handle, said, (message) => ask(message, given.signal));
    return said.end;
  };
  try {
    for await (const chunk of file) {
      for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
        await feed({ type: "Chunk", bytes: chunk.subarray(at, at + CHUNK_BYTES) });
      }
    }
    const info = await feed({ type: "End" });
    if (info === undefined) throw new MeshError("BadFile");
    return info;
  } finally {
    given.abort();
    module.destroy(handle);
  }
}

/** What the module says in one step. */
interface Said {
  readonly bytes: Uint8Array;
  readonly ask: { readonly tag: number; readonly message: Uint8Array<ArrayBuffer> } | undefined;
  readonly end: ExportInfo | undefined;
}

type Send = (message: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>;

async function askOn(module: CapsuleModule, handle: number, said: Said, send: Send): Promise<Said> {
  if (said.ask === undefined) throw new MeshError("BadInput", "capsule.wasm neither asks nor ends");
  const { tag, message } = said.ask;
  return step(module, handle, answered(tag, await send(message)));
}

function step(module: CapsuleModule, handle: number, input?: ModuleInput): Said {
  const batch = new InputBatch<ModuleInput>(moduleInputCodec);
  if (input !== undefined) batch.push(input);
  const pieces: Uint8Array[] = [];
  let ask: Said["ask"];
  let end: ExportInfo | undefined;
  for (const item of readItems(module.step(handle, batch.finish(0)))) {
    const output = moduleOutputCodec.decode(item);
    if (output.type === "Piece") pieces.push(output.bytes);
    else if (output.type === "Ask") ask = { tag: output.tag, message: output.message.slice() };
    else if (output.type === "Verified") end = output;
    else if (output.type === "Damaged") throw errorAt(output.code, output.at);
  }
  return { bytes: concat(pieces), ask, end };
}
