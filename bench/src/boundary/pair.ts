import { fromHex } from "../../../runtime/src/codec/index.ts";
import { Instance } from "./instance.ts";
import { configuration, idOf, type Member, Network } from "./network.ts";

/** Bytes consumed before the receiver grants credit again: a quarter of a stream's first window. */
const CREDIT_STEP = 64 * 1024;
/** Name that one side serves and the other calls. */
/** The stream gets no answer, and lasts as long as a benchmark may. */
const UNANSWERED_MS = 24 * 60 * 60 * 1000;
const SERVICE = "bench";
const NOTHING = new Uint8Array();

/** Two cores, each in an instance of its own, joined by a wire in memory; the first calls, the second answers. */
export class Pair {
  readonly #network = new Network(Date.now);
  readonly #calling: Member;
  readonly #answering: Member;
  readonly #peer: Uint8Array;
  #payload = NOTHING;

  constructor(module: WebAssembly.Module) {
    this.#calling = this.#network.add(new Instance(module), configuration(1));
    this.#answering = this.#network.add(new Instance(module), configuration(2));
    this.#peer = fromHex(idOf(this.#network, this.#answering), 32, "an id");
  }

  /** Connects with fresh keys until both cores say so, and closes the path again. */
  handshake(): void {
    const path = this.#connect();
    this.#network.close(this.#calling, path);
    this.#network.pump();
    for (const side of this.#network.members) {
      if (side.connected !== side.disconnected) throw this.#network.fault("a session outlived its path");
    }
  }

  /** Connects and opens a stream from the first core to the second. */
  openStream(): void {
    this.#ask(this.#answering, (tag) => ({ type: "Join", tag }));
    this.#ask(this.#answering, (tag) => ({
      type: "Publish",
      tag,
      grant: NOTHING,
      name: SERVICE,
      replicas: 0,
      version: "",
      weight: 1,
    }));
    this.#connect();
    const peer = this.#peer;
    const tag = this.#network.nextTag();
    this.#calling.node.push({
      type: "CallPeer",
      tag,
      peer,
      owner: NOTHING,
      name: SERVICE,
      timeout_ms: UNANSWERED_MS,
      head: NOTHING,
    });
    this.#network.pump();
    if (this.#calling.stream === 0 || this.#answering.stream === 0) {
      throw this.#network.fault("the stream did not open");
    }
  }

  /** Sends bytes on the stream from the first core to the second, which opens them before the call returns. */
  message(length: number): void {
    if (this.#payload.length !== length) this.#payload = new Uint8Array(length).fill(7);
    const calling = this.#calling;
    const answering = this.#answering;
    if (calling.credit < length) throw new Error("the receiver granted less credit than it consumed");
    calling.credit -= length;
    const before = answering.received;
    calling.node.pushData(calling.stream, this.#payload);
    this.#network.pump();
    if (answering.received - before !== length) throw this.#network.fault("a message did not arrive");
    if (answering.unacknowledged < CREDIT_STEP) return;
    answering.node.push({ type: "StreamCredit", stream: answering.stream, bytes: answering.unacknowledged });
    answering.unacknowledged = 0;
    this.#network.pump();
  }

  #connect(): number {
    const before = this.#answering.connected;
    const address = this.#answering.address;
    this.#ask(this.#calling, (tag) => ({ type: "Connect", tag, peer: this.#peer, address }));
    if (this.#answering.connected !== before + 1) throw this.#network.fault("the cores did not connect");
    return this.#network.lastPath;
  }

  #ask(side: Member, command: (tag: number) => Parameters<Member["node"]["push"]>[0]): void {
    const tag = this.#network.nextTag();
    side.node.push(command(tag));
    this.#network.pump();
    if (!side.replies.delete(tag)) throw this.#network.fault("a command was not answered");
  }
}
