import {
  type Config,
  codeName,
  decodeStatus,
  type Output,
  outputCodec,
} from "../../../runtime/src/codec/index.ts";
import { type Instance, Node } from "./instance.ts";
import { STREAM_DATA_OUT, TRANSMIT, WAKE } from "./items.ts";

/** Rounds of steps after which an exchange that does not come to rest is taken for a fault. */
const MOST_ROUNDS = 10_000;

/** The other end of a path. */
interface Route {
  readonly member: Member;
  readonly path: number;
}

/** A node of the network and what its core told it. */
export class Member {
  readonly node: Node;
  readonly address: string;
  /** Where frames go that the core transmits, by path. */
  readonly routes: (Route | undefined)[] = [];
  readonly replies: Map<number, Uint8Array> = new Map();
  readonly failures: string[] = [];
  ready = false;
  connected = 0;
  disconnected = 0;
  /** The stream that opened last. */
  stream = 0;
  /** What may still be sent on the stream. */
  credit = 0;
  /** Bytes that arrived on streams. */
  received = 0;
  /** Of them, those for which no credit was granted again yet. */
  unacknowledged = 0;
  wake_ms = Number.POSITIVE_INFINITY;

  constructor(node: Node, address: string) {
    this.node = node;
    this.address = address;
  }
}

/** Cores joined by wires in memory; a store that is always empty and always ready. */
export class Network {
  readonly members: Member[] = [];
  readonly #now: () => number;
  #paths = 0;
  #tags = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Starts a node and waits until it is ready. */
  add(instance: Instance, config: Config): Member {
    const member = new Member(new Node(instance, config), config.addresses[0] ?? "");
    this.members.push(member);
    this.#step(member);
    this.pump();
    if (!member.ready) throw this.fault("a core did not become ready");
    return member;
  }

  /** The path that was opened last. */
  get lastPath(): number {
    return this.#paths;
  }

  /** A number for the next command. */
  nextTag(): number {
    this.#tags += 1;
    return this.#tags;
  }

  /** Steps whoever has inputs until nobody has. */
  pump(): void {
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      let idle = true;
      for (const member of this.members) {
        if (!member.node.hasInput) continue;
        idle = false;
        this.#step(member);
      }
      if (idle) return;
    }
    throw this.fault("the cores do not come to rest");
  }

  /** Steps every core that asked to be woken by now. */
  wake(): void {
    const now_ms = this.#now();
    for (const member of this.members) if (member.wake_ms <= now_ms) this.#step(member);
    this.pump();
  }

  /** Closes a path at both ends. */
  close(member: Member, path: number): void {
    const route = member.routes[path];
    member.routes[path] = undefined;
    member.node.push({ type: "PathClosed", path });
    if (route === undefined) return;
    route.member.routes[route.path] = undefined;
    route.member.node.push({ type: "PathClosed", path: route.path });
  }

  /** An error with what the cores complained of. */
  fault(what: string): Error {
    const reasons = this.members.flatMap((member) => member.failures);
    return new Error([what, ...reasons].join(": "));
  }

  #step(member: Member): void {
    const { node } = member;
    const { instance } = node;
    node.step(this.#now());
    const end = node.outputsEnd;
    for (let at = node.outputs; at < end; ) {
      const { view } = instance;
      const kind = view.getUint8(at);
      const length = view.getUint32(at + 1, true);
      const payload = at + 5;
      if (kind === TRANSMIT) {
        const route = member.routes[view.getUint32(payload, true)];
        route?.member.node.pushFrame(route.path, instance, payload + 8, view.getUint32(payload + 4, true));
      } else if (kind === STREAM_DATA_OUT) {
        const bytes = view.getUint32(payload + 4, true);
        member.received += bytes;
        member.unacknowledged += bytes;
      } else if (kind === WAKE) {
        member.wake_ms = view.getUint32(payload, true) + view.getUint32(payload + 4, true) * 2 ** 32;
      } else {
        const bytes = instance.bytes.subarray(payload, payload + length);
        this.#handle(member, outputCodec.decode({ kind, payload: bytes }));
      }
      at = payload + length;
    }
  }

  #handle(member: Member, output: Output): void {
    const { node } = member;
    switch (output.type) {
      case "Dial":
        this.#dial(member, output.dial, output.address);
        break;
      case "ClosePath":
        this.close(member, output.path);
        break;
      case "NeedEntropy":
        node.push({ type: "Entropy", bytes: crypto.getRandomValues(new Uint8Array(32)) });
        break;
      case "StoreGet":
      case "StoreScan":
        node.push({ type: "StoreRead", tag: output.tag, ok: true, entries: new Uint8Array() });
        break;
      case "StoreCommit":
        node.push({ type: "StoreCommitted", tag: output.tag, ok: true });
        break;
      default:
        note(member, output);
    }
  }

  #dial(member: Member, dial: number, address: string): void {
    const target = this.members.find((other) => other.address === address);
    if (target === undefined) {
      member.node.push({ type: "DialFailed", dial });
      return;
    }
    this.#paths += 1;
    const path = this.#paths;
    member.routes[path] = { member: target, path };
    target.routes[path] = { member, path };
    member.node.push({ type: "PathOpened", path, dial, kind: "Ordered", remote: "127.0.0.1:7001" });
    target.node.push({ type: "PathOpened", path, dial: 0, kind: "Ordered", remote: "127.0.0.1:7002" });
  }
}

function note(member: Member, output: Output): void {
  switch (output.type) {
    case "StreamOpened":
      member.stream = output.stream;
      break;
    case "StreamCredit":
      member.credit += output.bytes;
      break;
    case "Reply":
      // The bytes are a view of the core's memory, which the next step uses again.
      member.replies.set(output.tag, output.body.slice());
      break;
    case "Failed":
      member.failures.push(`${codeName(output.code)} ${output.detail}`);
      break;
    case "Refused":
      member.failures.push(`input ${output.input} refused, ${codeName(output.code)}`);
      break;
    case "Event":
      if (output.event === "Ready") member.ready = true;
      if (output.event === "PeerConnected") member.connected += 1;
      if (output.event === "PeerDisconnected") member.disconnected += 1;
      break;
  }
}

/** What a node of a benchmark is created with. */
export function configuration(number: number, overrides: Partial<Config> = {}): Config {
  return {
    seed: new Uint8Array(32).fill(number),
    entropy: crypto.getRandomValues(new Uint8Array(32)),
    knownKey: new Uint8Array(),
    network: "bench",
    role: "member",
    addresses: [`ws://127.0.0.1:${7000 + number}/.mesh`],
    bootstraps: [],
    dials: ["ws"],
    allowPrivate: true,
    trustOnFirstUse: false,
    idle_ms: 60_000,
    domain: "",
    admission: "open",
    takeOver: false,
    ...overrides,
  };
}

/** A node's id in hexadecimal digits, from its answer to `Status`. */
export function idOf(network: Network, member: Member): string {
  const tag = network.nextTag();
  member.node.push({ type: "Status", tag });
  network.pump();
  const status = member.replies.get(tag);
  if (status === undefined) throw network.fault("a node does not tell its status");
  return decodeStatus(status).id;
}
