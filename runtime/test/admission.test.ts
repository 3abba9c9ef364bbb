import assert from "node:assert/strict";
import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import { after, describe, test } from "node:test";
import { Cache } from "../src/admission/cache.ts";
import { askOverUdp } from "../src/admission/plain.ts";
import { QueryRate } from "../src/admission/rate.ts";
import { type DnsValues, Resolver, type ResolverOptions } from "../src/admission/resolver.ts";
import { createResolver } from "../src/entries/admission-node.ts";

const DOMAIN = "ring.example";
const KEY = new Uint8Array(32).fill(9);
/** The text of the value `old`. */
const TEXT = "selfsame1=b2xk";
const EVIL = "selfsame1=ZXZpbA";

interface Asked {
  readonly bytes: Buffer;
  readonly source: RemoteInfo | undefined;
  readonly index: number;
}

type Answer = (query: Asked) => readonly Buffer[];

const closing: (() => void)[] = [];
after(() => {
  for (const close of closing) close();
});

/** A name server that sends what a test says, over UDP and TCP; it counts its queries. */
async function nameServer(answer: Answer): Promise<{ place: string; readonly queries: number }> {
  let queries = 0;
  const { udp, tcp } = await boundPair();
  udp.on("message", (bytes, source) => {
    for (const datagram of answer({ bytes, source, index: queries++ }))
      udp.send(datagram, source.port, source.address);
  });
  tcp.on("connection", (stream) => {
    stream.once("data", (bytes) => {
      stream.end(Buffer.concat(answer({ bytes: bytes.subarray(2), source: undefined, index: queries++ })));
    });
  });
  closing.push(
    () => udp.close(),
    () => tcp.close(),
  );
  return {
    place: `127.0.0.1:${udp.address().port}`,
    get queries() {
      return queries;
    },
  };
}

/** A port that is free for both. */
async function boundPair(): Promise<{ udp: Socket; tcp: Server }> {
  for (;;) {
    const tcp = createServer().listen(0, "127.0.0.1");
    await once(tcp, "listening");
    const udp = createSocket("udp4");
    const bound = once(udp, "listening").then(() => true);
    const taken = once(udp, "error").then(() => false);
    const address = tcp.address();
    udp.bind(typeof address === "object" ? (address?.port ?? 0) : 0, "127.0.0.1");
    if (await Promise.race([bound, taken])) return { udp, tcp };
    tcp.close();
  }
}

/** The response to a query, with TXT records of the name that it asks for. */
function response(query: Buffer, flags: number, texts: readonly string[], ttl_s = 300): Buffer {
  const head = Buffer.alloc(12);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8180 | flags, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(texts.length, 6);
  const records = texts.map((text) => {
    const record = Buffer.alloc(13);
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(16, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(ttl_s, 6);
    record.writeUInt16BE(text.length + 1, 10);
    record.writeUInt8(text.length, 12);
    return Buffer.concat([record, Buffer.from(text)]);
  });
  // What follows the question is the EDNS record, of 11 bytes.
  return Buffer.concat([head, query.subarray(12, query.length - 11), ...records]);
}

function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}

function reply({ source }: Asked, message: Buffer): Buffer[] {
  return [source === undefined ? framed(message) : message];
}

const honest: Answer = (query) => reply(query, response(query.bytes, 0, [TEXT]));
const refusing =
  (flags: number): Answer =>
  (query) =>
    reply(query, response(query.bytes, flags, []));

function changed(message: Buffer, at: number): Buffer {
  const copy = Buffer.from(message);
  copy.writeUInt8(copy.readUInt8(at) ^ 1, at);
  return copy;
}

function texts({ values }: DnsValues): string[] {
  return values.map((value) => Buffer.from(value).toString());
}

/** A resolver whose time a test moves, and whose tries end after so long. */
function timed(
  options: ResolverOptions,
  patience_ms = 60_000,
): { resolver: Resolver; advance: (seconds: number) => void } {
  let now_ms = 1_000_000;
  const module = async (): Promise<WebAssembly.Module> =>
    WebAssembly.compile(await readFile(new URL("../core/admission.wasm", import.meta.url)));
  const plain = { systemServers: () => [], ask: askOverUdp };
  const clock = { now_ms: () => now_ms, timeout: () => AbortSignal.timeout(patience_ms) };
  const resolver = new Resolver(options, { module, fetch, plain }, clock);
  return { resolver, advance: (seconds) => (now_ms += seconds * 1000) };
}

describe("a resolver", () => {
  test("finds a value once and remembers it for its time", async () => {
    const server = await nameServer(honest);
    const { resolver, advance } = timed({ servers: [server.place] });
    for (const expected of [1, 1]) {
      assert.deepEqual(texts(await resolver.certificates(KEY, DOMAIN)), ["old"]);
      assert.equal(server.queries, expected);
    }
    advance(301);
    assert.deepEqual(texts(await resolver.certificates(KEY, DOMAIN)), ["old"]);
    assert.equal(server.queries, 2);
  });

  test("remembers for a while that there is none", async () => {
    const server = await nameServer(refusing(3));
    const { resolver, advance } = timed({ servers: [server.place] });
    for (const expected of [1, 1]) {
      assert.deepEqual((await resolver.certificates(KEY, DOMAIN)).values, []);
      assert.equal(server.queries, expected);
    }
    advance(11);
    assert.deepEqual((await resolver.authorityKeys(DOMAIN)).values, []);
    assert.deepEqual((await resolver.certificates(KEY, DOMAIN)).values, []);
    assert.equal(server.queries, 3);
  });

  test("sends one query for a name that many want at once", async () => {
    const server = await nameServer(honest);
    const resolver = createResolver({ servers: [server.place] });
    const found = await Promise.all(Array.from({ length: 20 }, () => resolver.certificates(KEY, DOMAIN)));
    assert.ok(found.every((values) => `${texts(values)}` === "old"));
    assert.equal(server.queries, 1);
  });

  test("asks over TCP for what does not fit a datagram", async () => {
    const server = await nameServer((query) =>
      query.source === undefined ? honest(query) : refusing(0x200)(query),
    );
    const resolver = createResolver({ servers: [server.place] });
    assert.deepEqual(texts(await resolver.certificates(KEY, DOMAIN)), ["old"]);
    assert.equal(server.queries, 2);
  });

  test("passes over forged datagrams", async () => {
    const stranger = createSocket("udp4");
    closing.push(() => stranger.close());
    const server = await nameServer((query) => {
      const forged = response(query.bytes, 0, [EVIL]);
      stranger.send(forged, query.source?.port ?? 0, "127.0.0.1");
      return [changed(forged, 0), changed(forged, 13), ...honest(query)];
    });
    const resolver = createResolver({ servers: [server.place] });
    assert.deepEqual(texts(await resolver.certificates(KEY, DOMAIN)), ["old"]);
  });

  test("asks over TCP when somebody guesses", async () => {
    const server = await nameServer((query) =>
      query.source === undefined
        ? honest(query)
        : Array.from({ length: 16 }, () => changed(response(query.bytes, 0, [EVIL]), 0)),
    );
    const resolver = createResolver({ servers: [server.place] });
    assert.deepEqual(texts(await resolver.certificates(KEY, DOMAIN)), ["old"]);
  });

  test("asks the next server when one fails, and says why all do", async () => {
    const [broken, sound] = [await nameServer(refusing(2)), await nameServer(honest)];
    const resolver = createResolver({ servers: [broken.place, sound.place] });
    assert.deepEqual(texts(await resolver.certificates(KEY, DOMAIN)), ["old"]);
    for (const [flags, name] of [
      [2, "DnsFailed"],
      [5, "DnsRefused"],
      [4, "DnsRejected"],
    ] as const) {
      const server = await nameServer(refusing(flags));
      const failing = createResolver({ servers: [server.place] });
      await assert.rejects(failing.certificates(KEY, DOMAIN), { name });
      assert.equal(server.queries, 3);
    }
  });

  test("refuses malformed and oversized answers", async () => {
    for (const [name, answer] of [
      ["BadDnsMessage", (query: Asked) => [response(query.bytes, 0, [TEXT]).subarray(0, -1)]],
      ["TooLarge", (query: Asked) => [Buffer.concat([response(query.bytes, 0, [TEXT]), Buffer.alloc(5000)])]],
      ["BadDnsValue", (query: Asked) => [response(query.bytes, 0, ["selfsame1=!"])]],
    ] as const) {
      const resolver = createResolver({ servers: [(await nameServer(answer)).place] });
      await assert.rejects(resolver.certificates(KEY, DOMAIN), { name });
    }
    const broken = await nameServer((query) =>
      query.source === undefined ? [Buffer.from([255, 255, 1])] : refusing(0x200)(query),
    );
    const resolver = createResolver({ servers: [broken.place] });
    await assert.rejects(resolver.certificates(KEY, DOMAIN), { name: "DialFailed" });
  });

  test("names its tries when nobody answers", async () => {
    const server = await nameServer(() => []);
    const { resolver } = timed({ servers: [server.place] }, 20);
    const message = `no answer from the name server ${server.place} after 3 tries`;
    await assert.rejects(resolver.certificates(KEY, DOMAIN), { name: "TimedOut", message });
  });

  test("sends few queries for strangers of one network", async () => {
    const server = await nameServer(refusing(3));
    const { resolver } = timed({ servers: [server.place] });
    const ask = (number: number, source: string): Promise<DnsValues> =>
      resolver.certificatesOfStranger(new Uint8Array(32).fill(number), DOMAIN, source);
    for (let number = 0; number < 8; number++) await ask(number, `1.1.1.${number}`);
    await assert.rejects(ask(100, "1.1.1.100"), { name: "TooManyRequests" });
    assert.equal(server.queries, 8);
    await ask(0, "1.1.1.1");
    await ask(101, "1.1.2.1");
    await resolver.certificates(KEY, DOMAIN);
    assert.equal(server.queries, 10);
  });

  test("names what it cannot use", async () => {
    const resolver = createResolver({ servers: ["127.0.0.1:1"] });
    await assert.rejects(resolver.certificates(KEY, "ring_example"), { name: "BadDomain" });
    for (const options of [
      { url: "dns.example" },
      { url: "udp://dns.example" },
      { url: "https://dns.example/dns-query", servers: ["127.0.0.1"] },
      { servers: [] },
      { servers: ["name:53"] },
      { servers: ["127.0.0.1:70000"] },
      { servers: ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"] },
    ])
      assert.throws(() => createResolver(options), { name: "BadConfig" });
  });
});

/** The URL of a web server that answers messages. */
async function webServer(
  answer: (query: Buffer) => { status?: number; headers?: Record<string, string>; body: Buffer },
): Promise<string> {
  const server: HttpServer = createHttpServer(async (request, reply) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    assert.equal(request.headers["content-type"], "application/dns-message");
    const { status = 200, headers = {}, body } = answer(Buffer.concat(pieces));
    reply.writeHead(status, { "content-type": "application/dns-message", ...headers }).end(body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/dns-query`;
}

describe("a resolver over HTTPS", () => {
  test("finds a value, whose age counts", async () => {
    let queries = 0;
    const url = await webServer((query) => {
      queries += 1;
      assert.equal(query.readUInt16BE(), 0);
      return { headers: { age: "290" }, body: response(query, 0, [TEXT]) };
    });
    const { resolver, advance } = timed({ url });
    for (const expected of [1, 1, 2]) {
      assert.deepEqual(texts(await resolver.certificates(KEY, DOMAIN)), ["old"]);
      assert.equal(queries, expected);
      advance(6);
    }
    const node = createResolver({ url });
    assert.deepEqual(texts(await node.certificates(KEY, DOMAIN)), ["old"]);
  });

  test("keeps no value for longer because its age is none", async () => {
    for (const age of ["-1000000", "-Infinity", "old"]) {
      let queries = 0;
      const url = await webServer((query) => {
        queries += 1;
        return { headers: { age }, body: response(query, 0, [TEXT]) };
      });
      const { resolver, advance } = timed({ url });
      await resolver.certificates(KEY, DOMAIN);
      advance(301);
      await resolver.certificates(KEY, DOMAIN);
      assert.equal(queries, 2, age);
    }
  });

  test("refuses what is no answer", async () => {
    for (const [name, answer] of [
      ["DialFailed", () => ({ status: 503, body: Buffer.alloc(0) })],
      ["DialFailed", () => ({ headers: { "content-type": "text/html" }, body: Buffer.from("<html>") })],
      ["DialFailed", () => ({ body: Buffer.alloc(65_536) })],
      ["WrongDnsAnswer", (query: Buffer) => ({ body: changed(response(query, 0, [TEXT]), 13) })],
      ["BadDnsMessage", (query: Buffer) => ({ body: response(query, 0x200, []) })],
    ] as const) {
      const resolver = createResolver({ url: await webServer(answer) });
      await assert.rejects(resolver.certificates(KEY, DOMAIN), { name });
    }
  });
});

describe("what strangers can fill", () => {
  test("is a cache in which a network evicts its own entries, and the largest goes first", () => {
    const cache = new Cache<number>();
    const entry = (until_ms: number, network?: string) => ({ known: 1, until_ms, network });
    cache.set("own", entry(1), 0);
    cache.set("honest", entry(1, "honest"), 0);
    for (let index = 0; index < 512; index++) cache.set(`${index}`, entry(10 + index, "one"), 0);
    assert.equal(cache.size, 258);
    assert.equal(cache.get("0", 0), undefined);
    assert.equal(cache.get("511", 0), 1);
    for (let index = 0; index < 6000; index++) cache.set(`many ${index}`, entry(5, `${index % 100}`), 0);
    assert.equal(cache.size, 4096);
    assert.deepEqual([cache.get("own", 0), cache.get("honest", 0), cache.get("own", 1)], [1, 1, undefined]);
  });

  test("is a rate of which a network leaves the others theirs", () => {
    const rate = new QueryRate();
    const taken = (network: string, now_ms: number, tries = 100): number =>
      Array.from({ length: tries }, () => rate.take(network, now_ms)).filter(Boolean).length;
    assert.equal(taken("one", 5000), 8);
    let others = 0;
    for (let index = 0; index < 100; index++) others += taken(`${index}`, 5000, 2);
    assert.equal(others, 24);
    assert.equal(taken("one", 6000), 2);
    assert.ok(rate.take(undefined, 9_000_000));
    assert.equal(rate.size, 0);
  });
});
