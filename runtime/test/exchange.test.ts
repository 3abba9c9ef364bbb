import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Input } from "../src/codec/input.ts";
import { type Link, type Opened, type Path, type PathHost, PathTable } from "../src/driver/paths.ts";
import { ExchangeAcceptor } from "../src/transports/exchange-accept.ts";
import { ExchangeDialler } from "../src/transports/exchange-dial.ts";
import { FrameSplitter, joinFrames } from "../src/transports/frames.ts";
import { mockClocks, turn, Upload, until } from "./support.ts";

/** A host that keeps what it is told and whose links the test uses as the core would. */
class Host implements PathHost {
  readonly inputs: Input[] = [];
  readonly links: Link[] = [];
  readonly table: PathTable = new PathTable((input) => this.inputs.push(input));
  onFrame: ((link: Link, frame: Uint8Array) => void) | undefined;
  onOpen: ((link: Link) => void) | undefined;
  #done = 0;

  open(link: Link, opened: Opened): Path {
    this.links.push(link);
    this.onOpen?.(link);
    return this.table.open(link, opened);
  }

  resume(): Path {
    throw new Error("not in this test");
  }

  dialFailed(dial: number): void {
    this.inputs.push({ type: "DialFailed", dial });
  }

  async settled(): Promise<void> {
    for (; this.#done < this.inputs.length; this.#done++) {
      const input = this.inputs[this.#done];
      if (input?.type === "Received") this.onFrame?.(this.links[0] as Link, input.frame);
    }
  }

  frames(): string[] {
    return this.inputs.flatMap((input) =>
      input.type === "Received" ? [Buffer.from(input.frame).toString()] : [],
    );
  }
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A dialler and an acceptor, joined by the real Request and Response. */
function pair(): { dialling: Host; accepting: Host; posts: () => number; link: Link } {
  const dialling = new Host();
  const accepting = new Host();
  const acceptor = new ExchangeAcceptor(accepting);
  let posts = 0;
  const dialler = new ExchangeDialler(() => (url, init) => {
    posts++;
    return acceptor.handle(new Request(url, init), "peer");
  });
  dialler.dial(7, "https://host/#id", dialling);
  return { dialling, accepting, posts: () => posts, link: dialling.links[0] as Link };
}

describe("HTTPS POST", () => {
  test("a dialled path is open before anything is sent", () => {
    const { dialling, posts } = pair();
    assert.deepEqual(dialling.inputs, [
      { type: "PathOpened", path: 1, dial: 7, kind: "Exchange", remote: "host" },
    ]);
    assert.equal(posts(), 0);
  });

  test("frames of one turn go in one POST, and the answer ends when nothing is awaited", async () => {
    const { dialling, accepting, posts, link } = pair();
    accepting.onFrame = (answer, frame) => answer.send(bytes(`re:${Buffer.from(frame)}`));
    link.send(bytes("a"));
    link.send(bytes("b"));
    await until("both answers are here", () => dialling.frames().length === 2);
    assert.deepEqual(dialling.frames(), ["re:a", "re:b"]);
    assert.equal(posts(), 1);
    assert.deepEqual(accepting.inputs[0], {
      type: "PathOpened",
      path: 1,
      dial: 0,
      kind: "Exchange",
      remote: "peer",
    });
  });

  test("a busy answer is held until it is not, and a later frame need not wait for it", async () => {
    const { dialling, accepting, link } = pair();
    accepting.onFrame = (answer) => answer.busy?.(true);
    link.send(bytes("first"));
    await until("the first frame is there", () => accepting.frames().length === 1);
    link.send(bytes("second"));
    await until("the second frame is there", () => accepting.frames().length === 2);
    const [answer] = accepting.links;
    answer?.send(bytes("late"));
    answer?.busy?.(false);
    await until("the late answer is here", () => dialling.frames().length === 1);
    assert.equal(accepting.links.length, 1, "one token is one path");
  });

  test("a frame without a waiting POST goes with the next poll", async () => {
    const { dialling, accepting, posts, link } = pair();
    link.send(bytes("hello"));
    await until("the frame is there", () => accepting.frames().length === 1);
    accepting.links[0]?.send(bytes("news"));
    assert.deepEqual(dialling.frames(), []);
    link.busy?.(true);
    await until("the news is here", () => dialling.frames().length === 1);
    link.busy?.(false);
    assert.ok(posts() >= 2);
  });

  test("a POST that fails closes the path", async () => {
    for (const fetch of [
      async () => new Response("no", { status: 502 }),
      async () => Promise.reject(new TypeError("refused")),
      async () => new Response(joinFrames([bytes("whole")]).subarray(0, 6)),
    ]) {
      const host = new Host();
      new ExchangeDialler(() => fetch).dial(1, "https://host/", host);
      host.links[0]?.send(bytes("x"));
      await until("the path is closed", () => host.inputs.some(({ type }) => type === "PathClosed"));
    }
  });

  test("a POST that makes the node close its path is told so, and so is every later one for a minute", async (t) => {
    mockClocks(t, ["Date"], 1_000_000);
    const host = new Host();
    host.onFrame = (link, frame) => {
      if (frame[0] === 2) link.send(bytes("farewell"));
      link.close(1000, "");
    };
    const acceptor = new ExchangeAcceptor(host);
    const post = (token: string, frame: number): Promise<Response> => {
      const headers = { "content-type": "application/selfsame", "selfsame-path": token.repeat(32) };
      const body = joinFrames([Uint8Array.of(frame)]);
      return acceptor.handle(new Request("https://host/", { method: "POST", headers, body }), "");
    };
    assert.equal((await post("0", 1)).status, 410);
    assert.equal((await post("0", 1)).status, 410);
    assert.equal(host.links.length, 1);
    t.mock.timers.setTime(1_061_000);
    acceptor.sweep();
    host.links.length = 0;
    const answered = await post("0", 2);
    assert.equal(answered.status, 200);
    assert.deepEqual(new FrameSplitter().push(new Uint8Array(await answered.arrayBuffer())).map(String), [
      String(bytes("farewell")),
    ]);
    assert.equal((await post("0", 2)).status, 410);
  });

  test("an answer that is not read holds a bounded number of bytes, however often it is asked for", async () => {
    const host = new Host();
    const acceptor = new ExchangeAcceptor(host);
    const post = (): Promise<Response> => {
      const headers = { "content-type": "application/selfsame", "selfsame-path": "0".repeat(32) };
      return acceptor.handle(new Request("https://host/", { method: "POST", headers }), "");
    };
    host.onOpen = (link) => link.busy?.(true);
    const frame = new Uint8Array(65_536);
    const answers: Response[] = [];
    for (let count = 0; count < 64; count++) {
      if (count % 16 === 0) answers.push(await post());
      host.links[0]?.send(frame);
    }
    assert.throws(() => host.links[0]?.send(frame), /does not fetch/);
    host.links[0]?.busy?.(false);
    const [last] = answers.slice(-1);
    const frames = new FrameSplitter().push(new Uint8Array((await last?.arrayBuffer()) ?? []));
    assert.ok(frames.length >= 64, "the newest answer gets all of them");
  });

  test("a silent path is closed", (t) => {
    mockClocks(t, ["Date"], 1_000_000);
    const host = new Host();
    const acceptor = new ExchangeAcceptor(host);
    const headers = { "content-type": "application/selfsame", "selfsame-path": "0".repeat(32) };
    return acceptor.handle(new Request("https://host/", { method: "POST", headers }), "").then(() => {
      acceptor.sweep();
      assert.equal(host.table.size, 1);
      t.mock.timers.setTime(1_061_000);
      acceptor.sweep();
      assert.equal(host.table.size, 0);
    });
  });
});

describe("POSTs of strangers", () => {
  const MIB = 1024 * 1024;
  let token = 0;

  /** One POST of an address on a path of its own. */
  function post(
    acceptor: ExchangeAcceptor,
    remote: string,
    body: Upload | Uint8Array<ArrayBuffer> = joinFrames([bytes("x")]),
    more: Record<string, string> = {},
  ): Promise<Response> {
    const path = (token++).toString(16).padStart(32, "0");
    const headers = { "content-type": "application/selfsame", "selfsame-path": path, ...more };
    const init = { method: "POST", headers, body: body instanceof Upload ? body.stream : body };
    return acceptor.handle(new Request("https://host/", { ...init, duplex: "half" } as RequestInit), remote);
  }

  /** Bodies of an address that have almost arrived. */
  function uploads(acceptor: ExchangeAcceptor, remote: string, count: number): [Upload, Promise<Response>][] {
    return Array.from({ length: count }, () => {
      const upload = new Upload().send(new Uint8Array(MIB));
      return [upload, post(acceptor, remote, upload)];
    });
  }

  test("hold memory by their source, so that others are served", async () => {
    const acceptor = new ExchangeAcceptor(new Host());
    const announced = new Upload();
    const first = post(acceptor, "1.1.1.1", announced, { "content-length": `${MIB}` });
    const [[upload, answer] = [], ...more] = uploads(acceptor, "1.1.1.1", 3);
    // However little has arrived of them, together with the first they take the rest.
    const begun = Array.from({ length: 15 }, () => new Upload());
    const others = begun.map((one) => post(acceptor, "1.1.1.1", one));
    await turn();
    const refused = new Upload().send(new Uint8Array(1));
    assert.equal((await post(acceptor, "1.1.1.1", refused)).status, 503);
    assert.ok(refused.isCancelled);
    assert.equal((await post(acceptor, "1.1.2.1")).status, 200);
    assert.equal((await post(acceptor, "2606:4700::1")).status, 200);
    upload?.fail();
    assert.equal((await answer)?.status, 400);
    assert.equal((await post(acceptor, "1.1.1.1")).status, 200, "what was broken off is given back");
    for (const one of begun) one.end();
    for (const other of others) assert.equal((await other).status, 200);
    announced.send(joinFrames([bytes("x")])).end();
    assert.equal((await first).status, 200, "what is announced takes no more");
    for (const [other] of more) other.send(new Uint8Array(1));
    for (const [, refusal] of more) assert.equal((await refusal).status, 413);
    const [[last, all] = []] = uploads(acceptor, "1.1.1.1", 1);
    last?.end();
    assert.equal((await all)?.status, 200);
  });

  test("hold memory in all", async () => {
    const acceptor = new ExchangeAcceptor(new Host());
    const held = ["1.1.1.1", "1.1.2.1", "10.0.0.1", ""].flatMap((remote) => uploads(acceptor, remote, 4));
    await turn();
    const refusal = await post(acceptor, "1.1.3.1");
    assert.deepEqual([refusal.status, refusal.headers.get("retry-after")], [503, "1"]);
    for (const [upload] of held) upload.fail();
    await Promise.all(held.map(([, answer]) => answer));
    assert.equal((await post(acceptor, "1.1.3.1")).status, 200);
  });

  test("of large sources leave memory for those that hold little", async () => {
    const acceptor = new ExchangeAcceptor(new Host());
    for (const remote of ["1.1.1.1", "1.1.2.1", "1.1.3.1"]) uploads(acceptor, remote, 4);
    const [, , [, refused] = []] = uploads(acceptor, "1.1.4.1", 3);
    await turn();
    assert.equal((await refused)?.status, 503);
    assert.equal((await post(acceptor, "1.1.5.1")).status, 200);
  });

  test("end when they do not arrive in time", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const acceptor = new ExchangeAcceptor(new Host());
    const slow = uploads(acceptor, "1.1.1.1", 4);
    await turn();
    t.mock.timers.tick(19_999);
    assert.equal((await post(acceptor, "1.1.1.1")).status, 503);
    t.mock.timers.tick(1);
    for (const [upload, answer] of slow) {
      assert.equal((await answer).status, 408);
      assert.ok(upload.isCancelled);
    }
    assert.equal((await post(acceptor, "1.1.1.1")).status, 200);
  });

  test("open a quarter of the paths from one source", async () => {
    const host = new Host();
    const acceptor = new ExchangeAcceptor(host);
    for (let count = 0; count < 256; count++) {
      assert.equal((await post(acceptor, "1.1.1.1")).status, 200);
    }
    assert.equal((await post(acceptor, "1.1.1.1")).status, 503);
    assert.equal((await post(acceptor, "1.1.2.1")).status, 200);
    host.links[0]?.close(1000, "");
    assert.equal((await post(acceptor, "1.1.1.1")).status, 200);
  });
});

describe("a wall clock that goes back", () => {
  test("lets no silent path stay open", async (t) => {
    let [wall_ms, passed_ms] = [7_200_000, 0];
    t.mock.method(Date, "now", () => wall_ms);
    t.mock.method(performance, "now", () => passed_ms);
    const host = new Host();
    const acceptor = new ExchangeAcceptor(host);
    const headers = { "content-type": "application/selfsame", "selfsame-path": "0".repeat(32) };
    await acceptor.handle(new Request("https://host/", { method: "POST", headers }), "");
    [wall_ms, passed_ms] = [3_600_000, 61_000];
    acceptor.sweep();
    assert.equal(host.table.size, 0);
  });
});

describe("frames in a body", () => {
  test("come apart wherever the bytes are cut", () => {
    const frames = [bytes("one"), new Uint8Array(), bytes("three".repeat(100))];
    const body = joinFrames(frames);
    for (const size of [1, 2, 3, 5, 7, 64, body.length]) {
      const splitter = new FrameSplitter();
      const seen: Uint8Array[] = [];
      for (let at = 0; at < body.length; at += size) seen.push(...splitter.push(body.slice(at, at + size)));
      assert.deepEqual(seen.map(String), frames.map(String));
      assert.ok(splitter.isComplete);
    }
  });

  test("that announce more than a frame may have are refused", () => {
    assert.throws(() => new FrameSplitter().push(Uint8Array.of(1, 0, 1, 0)), RangeError);
  });
});
