import { FIRST_CAPACITY, type Field, malformed, Reader, Writer } from "./field.ts";

/** One item of a batch before its payload is looked at. */
export interface Item {
  /** Number of the kind. */
  readonly kind: number;
  /** The payload, a view into the batch. */
  readonly payload: Uint8Array;
}

/** The items of a batch: `kind u8 | length u32 | payload`. Throws when they do not fill the bytes exactly. */
export function readItems(batch: Uint8Array): Item[] {
  const reader = new Reader(batch);
  const items: Item[] = [];
  while (!reader.isEmpty) items.push({ kind: reader.u8(), payload: reader.bytes() });
  return items;
}

/** The layout of one item: its number and its fields in the order of the wire. */
export type Layout<T extends { type: string }> = readonly [
  kind: number,
  fields: { readonly [K in Exclude<keyof T, "type">]-?: Field<T[K]> },
];

/** The layouts of a union of items, by the name of the variant. */
export type Layouts<T extends { type: string }> = {
  readonly [K in T["type"]]: Layout<Extract<T, { type: K }>>;
};

interface Compiled {
  readonly type: string;
  readonly kind: number;
  readonly fields: readonly (readonly [name: string, field: Field<unknown>])[];
}

/** Both directions of the codec of a union of items. */
export class ItemCodec<T extends { type: string }> {
  readonly #byType: Map<string, Compiled> = new Map();
  readonly #byKind: Map<number, Compiled> = new Map();

  constructor(layouts: Layouts<T>) {
    for (const [type, [kind, fields]] of Object.entries<readonly [number, object]>(layouts)) {
      const compiled = { type, kind, fields: Object.entries<Field<unknown>>(fields as never) };
      this.#byType.set(type, compiled);
      this.#byKind.set(kind, compiled);
    }
  }

  /** Appends an item to a batch; one that cannot be encoded leaves the batch as it was. */
  encode(writer: Writer, item: T): void {
    const layout = this.#byType.get(item.type);
    if (layout === undefined) throw malformed(`an item of the type ${item.type}`);
    const start = writer.length;
    try {
      writer.u8(layout.kind).u32(0);
      for (const [name, field] of layout.fields) field.write(writer, item[name as keyof T]);
      writer.patchLength(start + 1);
    } catch (error) {
      writer.truncate(start);
      throw error;
    }
  }

  /** Decodes an item; its bytes are views. Throws when the kind is unknown or the payload does not fit it exactly. */
  decode(item: Item): T {
    const layout = this.#byKind.get(item.kind);
    if (layout === undefined) throw malformed(`an item of the kind ${item.kind}`);
    const reader = new Reader(item.payload);
    const decoded: Record<string, unknown> = { type: layout.type };
    for (const [name, field] of layout.fields) decoded[name] = field.read(reader);
    reader.finish();
    return decoded as T;
  }

  /** Number of a kind of item. */
  kindOf(type: T["type"]): number {
    const layout = this.#byType.get(type);
    if (layout === undefined) throw malformed(`an item of the type ${type}`);
    return layout.kind;
  }
}

/** Memory that an empty batch keeps: a few frames; more is given back after a burst. */
const KEEP = 256 * 1024;

/** Collects inputs for one `step`: `now u64`, then items. */
export class InputBatch<T extends { type: string }> {
  readonly #codec: ItemCodec<T>;
  readonly #writer: Writer;
  #count = 0;

  /** A batch with room for so many bytes of items; it takes more when it needs them. */
  constructor(codec: ItemCodec<T>, capacity = 0) {
    this.#codec = codec;
    this.#writer = new Writer(Math.max(FIRST_CAPACITY, 8 + capacity)).u64(0n);
  }

  /** How many items are in the batch. */
  get count(): number {
    return this.#count;
  }

  /** Appends an item and returns its position. */
  push(item: T): number {
    this.#codec.encode(this.#writer, item);
    return this.#count++;
  }

  /** The batch at the time `now_ms`, as a view that the next `push` may invalidate. */
  finish(now_ms: number): Uint8Array {
    const batch = this.#writer.written();
    new DataView(batch.buffer).setBigUint64(0, BigInt(Math.trunc(now_ms)), true);
    return batch;
  }

  /** Empties the batch. */
  clear(): void {
    this.#writer.truncate(8, KEEP);
    this.#count = 0;
  }
}
