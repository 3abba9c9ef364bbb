import { Hono } from "hono";
import type { CapsuleMap, MapEntry } from "selfsame/capsule";
import { MeshError, problem } from "selfsame/codec";

/** What the app needs of its platform. */
export type NotesOptions = {
  /** The map that notes are in. */
  map: CapsuleMap;
  /** What is told in the header `served-by`, such as `deno`. */
  platform: string;
};

/** Longest note, in bytes: it is read whole. */
const MAX_NOTE = 64 * 1024;
/** Notes of one page. */
const PAGE = 100;

/**
 * Notes by name, in a map of a capsule: `PUT`, `GET` and `DELETE /notes/NAME`, `GET /notes?prefix=` for a list, and
 * `GET /notes/NAME/history` for what a note was. Whatever is answered has been proven; where too few replicas answer, 503.
 */
export function notes({ map, platform }: NotesOptions): Hono {
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    c.header("served-by", platform);
  });
  app.get("/notes", async (c) => {
    const found: MapEntry[] = [];
    const { prefix = "", start = "" } = c.req.query();
    for await (const entry of map.list({ prefix, start, limit: PAGE })) found.push(entry);
    return c.json(found.map(({ key, value, version }) => ({ name: key, text: text(value), version })));
  });
  app.get("/notes/:name", async (c) => {
    const entry = await map.getEntry(c.req.param("name"));
    if (entry === undefined) return c.json({ error: "there is no such note" }, 404);
    return c.text(text(entry.value), 200, { etag: `"${entry.version}"` });
  });
  app.get("/notes/:name/history", async (c) => {
    const was: { text: string | null; version: string }[] = [];
    for await (const { value, version } of map.history(c.req.param("name"), { limit: PAGE })) {
      was.push({ text: value === undefined ? null : text(value), version });
    }
    return c.json(was);
  });
  app.put("/notes/:name", async (c) => {
    const note = new Uint8Array(await c.req.arrayBuffer());
    if (note.length > MAX_NOTE) return problem(413, { detail: `a note has at most ${MAX_NOTE} bytes` });
    await map.set(c.req.param("name"), note);
    return c.body(null, 204);
  });
  app.delete("/notes/:name", async (c) => {
    await map.delete(c.req.param("name"));
    return c.body(null, 204);
  });
  app.onError((error) => {
    console.warn(`notes: ${error.message}`);
    return error instanceof MeshError ? error.getResponse() : problem(500, { detail: error.message });
  });
  return app;
}

function text(value: Uint8Array): string {
  return new TextDecoder().decode(value);
}
