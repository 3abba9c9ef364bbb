import { MeshError } from "../codec/code.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import type { Command, Input } from "../codec/input.ts";
import type { Output } from "../codec/output.ts";
import { detach } from "../guard.ts";
import type { MaybePromise } from "../stores/store.ts";

/** The longest time for all tries. */
const MAX_TIMEOUT_MS = 60_000;

/** Who a routed message is for, by 64 hex digits: the member responsible for an id, or one member and no other. */
export type RouteTarget = { readonly responsible: string } | { readonly member: string };

/** How a message is routed. */
export interface RouteOptions {
  /** The time for all tries, in milliseconds, at most a minute. 10 s unless given. */
  readonly timeout?: number | undefined;
  /** Gives the message up when it is aborted; it may have been delivered. */
  readonly signal?: AbortSignal | undefined;
}

/** A message that was routed to this member. */
export interface RoutedMessage {
  /** The member that has sent it, as its handshake has proved. */
  readonly from: string;
  /** The id that it is for: this member's own, or one for which it is responsible. */
  readonly target: string;
  /** What it says. */
  readonly body: Uint8Array;
}

/** Answers routed messages; one that throws refuses its message. */
export type RoutedHandler = (message: RoutedMessage) => MaybePromise<Uint8Array>;

type SendCommand = (build: (tag: number) => Command, signal?: AbortSignal) => Promise<Uint8Array>;

/** Messages from member to member through the ring. */
export class Routing {
  readonly #command: SendCommand;
  #handler: RoutedHandler | undefined;

  constructor(command: SendCommand) {
    this.#command = command;
  }

  /**
   * Sends at most 16 KiB to another member, and resolves with its answer. Members on the way can neither read nor change them. The
   * message is sent up to three times by different ways, and given to the other member once.
   */
  async send(target: RouteTarget, body: Uint8Array, options: RouteOptions = {}): Promise<Uint8Array> {
    const { timeout = 0, signal } = options;
    if (!(timeout >= 0 && timeout <= MAX_TIMEOUT_MS)) {
      throw new MeshError("BadConfig", `timeout is a number of milliseconds up to ${MAX_TIMEOUT_MS}`);
    }
    const is_peer = "member" in target;
    const id = fromHex(is_peer ? target.member : target.responsible, 32, "an id");
    const timeout_ms = Math.ceil(timeout);
    return this.#command((tag) => ({ type: "Route", tag, target: id, is_peer, timeout_ms, body }), signal);
  }

  /** Answers messages that are routed to this member, in place of a handler that was given before. */
  serve(handler: RoutedHandler): void {
    this.#handler = handler;
  }

  /** Gives a message to the handler, and its answer to the core. */
  accept(output: Extract<Output, { type: "Routed" }>, tell: (input: Input) => void): void {
    const { message } = output;
    const refuse = (): void => tell({ type: "AnswerRouted", message, ok: false, body: new Uint8Array() });
    const handler = this.#handler;
    if (handler === undefined) return refuse();
    const { body } = output;
    const given = { from: toHex(output.peer), target: toHex(output.target), body };
    const answering = (async () => handler(given))().then(
      (answer) => tell({ type: "AnswerRouted", message, ok: true, body: answer }),
      (error: unknown) => {
        refuse();
        throw error;
      },
    );
    detach("the handler of routed messages", answering);
  }
}
