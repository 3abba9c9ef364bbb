import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { admissionDeriveCodec, admissionOutcomeCodec, admissionVerifyCodec } from "../src/codec/admission.ts";
import { fromBase32, toBase32 } from "../src/codec/base32.ts";
import { InputBatch, type ItemCodec, readItems } from "../src/codec/batch.ts";
import {
  encodeExporterConfig,
  encodeImporterConfig,
  encodeReplicaConfig,
  readKeys,
  writeKeys,
  writeValues,
} from "../src/codec/capsule.ts";
import { encodeClientConfig, moduleInputCodec, moduleOutputCodec } from "../src/codec/client.ts";
import {
  CborDecoder,
  CborEncoder,
  codeClass,
  codeNames,
  codeNumber,
  codeText,
  decodeConfig,
  decodeFoundNode,
  decodeProviders,
  decodeRequestHead,
  decodeResponseHead,
  decodeStatus,
  encodeConfig,
  encodeFoundNode,
  encodeProviders,
  encodeRequestHead,
  encodeResponseHead,
  encodeStatus,
  type Input,
  inputCodec,
  MeshError,
  outputCodec,
  readEntries,
  readOperations,
  toHex,
  Writer,
  writeEntries,
  writeOperations,
} from "../src/codec/index.ts";
import {
  encodeRpcClientConfig,
  encodeRpcRouterConfig,
  encodeRpcServerConfig,
  rpcInputCodec,
  rpcOutputCodec,
} from "../src/codec/rpc.ts";

interface Vector {
  value: Record<string, unknown>;
  hex: string;
}
interface Golden {
  inputs: Vector[];
  outputs: Vector[];
  cbor: { value: string; hex: string }[];
  codes: [number, string, string, string][];
  operations: string;
  entries: string;
  config: string;
  closed_config: string;
  request: string;
  response: string;
  providers: string;
  found_node: string;
  status: string;
  capsule_inputs: Vector[];
  capsule_outputs: Vector[];
  commands: Vector[];
  replies: Vector[];
  map_commands: Vector[];
  map_replies: Vector[];
  client_config: string;
  replica_config: string;
  exporter_config: string;
  importer_config: string;
  rpc_inputs: Vector[];
  rpc_outputs: Vector[];
  rpc_client_config: string;
  rpc_server_config: string;
  rpc_router_config: string;
  admission_derive: Vector[];
  admission_verify: Vector[];
  admission_outcomes: Vector[];
  keys: string;
  values: string;
}

const golden = JSON.parse(readFileSync(new URL("golden.json", import.meta.url), "utf8")) as Golden;
const unhex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "hex"));
const isMalformed = { name: "BadInput" };

/** A decoded item as the vectors write it: bytes as hex, times as text. */
function plain(item: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(item).map(([name, value]) => {
      if (value instanceof Uint8Array) return [name, toHex(value)];
      if (name === "at_ms" || name === "unix_us")
        return [name, value === Number.POSITIVE_INFINITY ? "never" : String(value)];
      return [name, value];
    }),
  );
}

function itemsAgree<T extends { type: string }>(codec: ItemCodec<T>, vectors: Vector[]): void {
  for (const { value, hex } of vectors) {
    const items = readItems(unhex(hex));
    assert.equal(items.length, 1);
    const [item] = items;
    assert.ok(item);
    const decoded = codec.decode(item);
    assert.deepEqual(plain(decoded), value);
    const writer = new Writer();
    codec.encode(writer, decoded);
    assert.equal(toHex(writer.written()), hex, String(value.type));
  }
}

describe("golden vectors of the boundary", () => {
  test("every input decodes to its fields and encodes to its bytes", () =>
    itemsAgree(inputCodec, golden.inputs));
  test("every output decodes to its fields and encodes to its bytes", () =>
    itemsAgree(outputCodec, golden.outputs));

  test("every item of the capsules' boundary decodes to its fields and encodes to its bytes", () => {
    itemsAgree(moduleInputCodec, [...golden.capsule_inputs, ...golden.commands, ...golden.map_commands]);
    itemsAgree(moduleOutputCodec, [...golden.capsule_outputs, ...golden.replies, ...golden.map_replies]);
  });

  test("configuration of a replica, keys and values", () => {
    const [seed, owners] = [new Uint8Array(32).fill(1), new Uint8Array(64).fill(2)];
    const config = { seed, cache: 16 << 20, mirrors: 8 << 20, owners };
    assert.equal(toHex(encodeReplicaConfig(config)), golden.replica_config);
    assert.equal(toHex(encodeExporterConfig(new Uint8Array(32).fill(0xab))), golden.exporter_config);
    assert.equal(toHex(encodeImporterConfig()), golden.importer_config);
    assert.equal(toHex(writeKeys(readKeys(unhex(golden.keys)))), golden.keys);
    const values = [Uint8Array.of(0x31), undefined, new Uint8Array()];
    assert.equal(toHex(writeValues(values)), golden.values);
  });

  test("configuration of a client", () => {
    const config = {
      capsule: new Uint8Array(32).fill(0xab),
      metadata: Uint8Array.of(1, 2),
      servers: new Uint8Array(64).fill(3),
      seed: new Uint8Array(32).fill(4),
      writeQuorum: 2,
      readQuorum: 1,
      timing: [250, 5_000, 10_000, 30_000],
      entropy: new Uint8Array(32).fill(5),
    } as const;
    assert.equal(toHex(encodeClientConfig(config)), golden.client_config);
  });

  test("every item of the RPC's boundary decodes to its fields and encodes to its bytes", () => {
    itemsAgree(rpcInputCodec, golden.rpc_inputs);
    itemsAgree(rpcOutputCodec, golden.rpc_outputs);
  });

  test("configurations of a client, a server and a router of the RPC", () => {
    const bytes = (value: number): Uint8Array => new Uint8Array(32).fill(value);
    assert.equal(toHex(encodeRpcClientConfig(1200)), golden.rpc_client_config);
    const server = {
      network: Buffer.from("twiitr"),
      service: Buffer.from("check"),
      ticketSecrets: bytes(1),
      entropy: bytes(2),
      datagramBytes: 65_536,
      streams: true,
      ticketLife_s: 3600,
      idempotent: true,
      notBefore_ms: 1_790_000_000_000,
      routerSecret: bytes(3),
    };
    assert.equal(toHex(encodeRpcServerConfig(server)), golden.rpc_server_config);
    const router = { secret: bytes(3), entropy: bytes(4), bound: 3, redirects: true };
    assert.equal(toHex(encodeRpcRouterConfig({ ...router, selection: "bounded" })), golden.rpc_router_config);
  });

  test("every item of admission's boundary decodes to its fields and encodes to its bytes", () => {
    itemsAgree(admissionDeriveCodec, golden.admission_derive);
    itemsAgree(admissionVerifyCodec, golden.admission_verify);
    itemsAgree(admissionOutcomeCodec, golden.admission_outcomes);
  });

  test("integers have their one encoding", () => {
    for (const { value, hex } of golden.cbor) {
      assert.equal(toHex(new CborEncoder().uint(BigInt(value)).finish()), hex);
      assert.equal(new CborDecoder(unhex(hex)).uint64(), BigInt(value));
    }
  });

  test("an integer that has no encoding is refused", () => {
    for (const value of [-1, -1n, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 2n ** 64n]) {
      assert.throws(() => new CborEncoder().uint(value), isMalformed, String(value));
    }
  });

  test("a text larger than the buffer starts with keeps what stood before it", () => {
    for (const length of [23, 24, 247, 255, 256, 65_535, 65_536]) {
      const text = "x".repeat(length);
      const decoder = new CborDecoder(
        new CborEncoder().array(3).text("before").text(text).bool(true).finish(),
      );
      decoder.arrayOf(3);
      assert.equal(decoder.text(6), "before");
      assert.equal(decoder.text(length), text);
      assert.equal(decoder.bool(), true);
      decoder.finish();
    }
  });

  test("the table of errors is the same", () => {
    const mirrored = codeNames.map((name) => [
      codeNumber(name),
      name,
      codeClass(codeNumber(name)),
      codeText(name),
    ]);
    assert.deepEqual(mirrored, golden.codes);
  });

  test("operations and entries", () => {
    assert.equal(toHex(writeOperations(readOperations(unhex(golden.operations)))), golden.operations);
    assert.equal(toHex(writeEntries(readEntries(unhex(golden.entries)))), golden.entries);
    assert.deepEqual(
      readOperations(unhex(golden.operations)).map(({ value }) => value === null),
      [false, true, false],
    );
  });

  test("configuration, heads and replies", () => {
    assert.equal(toHex(encodeConfig(decodeConfig(unhex(golden.config)))), golden.config);
    assert.equal(toHex(encodeConfig(decodeConfig(unhex(golden.closed_config)))), golden.closed_config);
    assert.equal(toHex(encodeRequestHead(decodeRequestHead(unhex(golden.request)))), golden.request);
    assert.equal(toHex(encodeProviders(decodeProviders(unhex(golden.providers)))), golden.providers);
    assert.equal(toHex(encodeFoundNode(decodeFoundNode(unhex(golden.found_node)))), golden.found_node);
    const status = decodeStatus(unhex(golden.status));
    assert.equal(toHex(encodeStatus(status)), golden.status);
    const open = { ...status, membership: null };
    assert.deepEqual(decodeStatus(encodeStatus(open)), open);
    const response = decodeResponseHead(unhex(golden.response));
    assert.ok(response);
    assert.equal(toHex(encodeResponseHead(response.head)), golden.response);
    assert.equal(status.counters.BadFrame, 70_000);
    assert.equal(status.membership?.revocations.revoked, 2);
  });
});

describe("bytes that do not follow the layout are refused", () => {
  test("every truncation of every vector", () => {
    for (const { hex } of [...golden.inputs, ...golden.outputs]) {
      const bytes = unhex(hex);
      for (let length = 1; length < bytes.length; length++) {
        assert.throws(() => readItems(bytes.subarray(0, length)), isMalformed);
      }
    }
  });

  test("an item with a byte too many or too few", () => {
    for (const [codec, vectors] of [
      [inputCodec, golden.inputs],
      [outputCodec, golden.outputs],
    ] as const) {
      for (const { hex } of vectors) {
        const [item] = readItems(unhex(hex));
        assert.ok(item);
        const longer = Uint8Array.from([...item.payload, 0]);
        assert.throws(() => codec.decode({ kind: item.kind, payload: longer }), isMalformed);
        if (item.payload.length === 0) continue;
        const shorter = item.payload.subarray(0, -1);
        assert.throws(() => codec.decode({ kind: item.kind, payload: shorter }), isMalformed);
      }
    }
  });

  test("an unknown kind, a flag that is neither 0 nor 1, text that is not UTF-8", () => {
    assert.throws(() => outputCodec.decode({ kind: 99, payload: new Uint8Array() }), isMalformed);
    assert.throws(() => outputCodec.decode({ kind: 9, payload: Uint8Array.of(1, 0, 0, 0, 2) }), isMalformed);
    assert.throws(
      () => outputCodec.decode({ kind: 2, payload: Uint8Array.of(1, 0, 0, 0, 1, 0, 0, 0, 0xff) }),
      isMalformed,
    );
  });

  test("longer forms, indefinite lengths and lengths beyond the input in CBOR", () => {
    for (const hex of ["1817", "1900ff", "1a0000ffff", "1b00000000ffffffff", "1f", "ff"]) {
      assert.throws(() => new CborDecoder(unhex(hex)).uint64(), isMalformed, hex);
    }
    assert.throws(
      () => new CborDecoder(unhex("5bffffffffffffffff")).bytes(Number.MAX_SAFE_INTEGER),
      isMalformed,
    );
    assert.throws(() => new CborDecoder(unhex("430102")).bytes(3), isMalformed);
    assert.throws(() => new CborDecoder(unhex("5f4100ff")).bytes(10), isMalformed);
    assert.throws(() => new CborDecoder(unhex("9fff")).array(10), isMalformed);
  });

  test("heads beyond their limits", () => {
    const huge = encodeRequestHead({ method: "GET", path: `/${"x".repeat(17_000)}`, headers: [] });
    assert.throws(() => decodeRequestHead(huge), isMalformed);
    assert.throws(
      () => decodeRequestHead(encodeRequestHead({ method: "GET", path: "x", headers: [] })),
      isMalformed,
    );
    assert.throws(() => decodeResponseHead(encodeResponseHead({ status: 103, headers: [] })), isMalformed);
    assert.throws(() => decodeResponseHead(Uint8Array.of(0xff, 0xff, 0xff, 0xff)), isMalformed);
    const many = Array.from({ length: 129 }, () => ["a", "b"] as const);
    assert.throws(() => decodeResponseHead(encodeResponseHead({ status: 200, headers: many })), isMalformed);
  });

  test("the head of an answer that is still incomplete is awaited", () => {
    const bytes = unhex(golden.response);
    for (let length = 0; length < bytes.length; length++) {
      assert.equal(decodeResponseHead(bytes.subarray(0, length)), undefined);
    }
  });
});

describe("base32", () => {
  test("is that of RFC 4648 in lower case without padding", () => {
    const vectors = {
      f: "my",
      fo: "mzxq",
      foo: "mzxw6",
      foob: "mzxw6yq",
      fooba: "mzxw6ytb",
      foobar: "mzxw6ytboi",
    };
    for (const [text, encoded] of Object.entries(vectors)) {
      assert.equal(toBase32(Buffer.from(text)), encoded);
      assert.equal(Buffer.from(fromBase32(encoded, text.length, "it")).toString(), text);
    }
    const name = Uint8Array.from({ length: 32 }, (_, index) => index * 37);
    assert.equal(toBase32(name).length, 52);
    assert.deepEqual(fromBase32(toBase32(name), 32, "a name"), name);
  });

  test("is refused in any other form", () => {
    for (const text of ["", "mz", "MY", "my=", "m1", "mza", "mzxw6", "m\u{1f600}"]) {
      assert.throws(() => fromBase32(text, 1, "it"), { name: "BadConfig" }, text);
    }
  });
});

describe("batches", () => {
  test("carry the time and count their items", () => {
    const batch = new InputBatch<Input>(inputCodec);
    assert.equal(batch.push({ type: "Join", tag: 1 }), 0);
    assert.equal(batch.push({ type: "Received", path: 1, frame: new Uint8Array(100_000) }), 1);
    const bytes = batch.finish(1_790_000_000_000).slice();
    assert.equal(new DataView(bytes.buffer).getBigUint64(0, true), 1_790_000_000_000n);
    assert.equal(readItems(bytes.subarray(8)).length, 2);
    batch.clear();
    assert.equal(batch.finish(0).length, 8);
  });

  test("stay as they were when an item cannot be encoded", () => {
    const batch = new InputBatch<Input>(inputCodec);
    batch.push({ type: "Join", tag: 1 });
    const before = toHex(batch.finish(0));
    assert.throws(() => batch.push({ type: "Entropy", bytes: new Uint8Array(31) }), MeshError);
    assert.equal(toHex(batch.finish(0)), before);
    assert.equal(batch.count, 1);
  });
});

test("an error of a newer version keeps its number and class", () => {
  const error = new MeshError(0x05fe);
  assert.equal(error.name, "Unknown");
  assert.equal(error.class, "Unreachable");
  assert.equal(error.code, 0x05fe);
});
