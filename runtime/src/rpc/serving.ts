import { codeNumber, MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import { IDEMPOTENT, type RpcInput, type RpcOutput } from "../codec/rpc.ts";
import type { ModuleInstance } from "../driver/instance.ts";
import type { Logger } from "../driver/log.ts";
import { MAX_TIMER_MS, type Timer, type Timers } from "../driver/timers.ts";
import { isPromise } from "../stores/store.ts";
import { type Share, Shares } from "../transports/shares.ts";
import { addressOf, textOfIpPort, UNKNOWN } from "./endpoint.ts";
import { Engine, type RoleOutput } from "./engine.ts";
import {
  checkedAnswer,
  faultIn,
  type RpcHandler,
  type RpcOutcome,
  type RpcRequest,
  refusalOf,
} from "./handler.ts";
import { MAX_MESSAGE, UDP_DATAGRAM } from "./limits.ts";

/** Most bytes of long requests until their calls end, of all sources: half of the 128 MB of an isolate. */
export const MAX_HELD: number = 4 * MAX_MESSAGE;
/** The part of one source. */
export const SOURCE_HELD: number = 2 * MAX_MESSAGE;
/** Tags begin anew after this one: by then their tickets are issued. */
const MAX_TAG = 0xffff_ffff;

type Serve = Extract<RpcOutput, { type: "Serve" }>;

/** Carries the datagrams of a server. */
export interface ServerPort {
  /** Sends a datagram; one that does not leave is lost. */
  send(target: Uint8Array, datagram: Uint8Array): void;
  /** Notes that the call of a request is being carried out. */
  served?(source: Uint8Array): void;
  /** Notes that there will be no answer to a request. */
  end?(source: Uint8Array): void;
  /** Learns that everything under way is lost. */
  lost?(error: MeshError): void;
}

/** The parts of a replica. */
export interface ReplicaParts {
  readonly module: WebAssembly.Module;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly service: string;
  readonly handler: RpcHandler;
  readonly config: () => Uint8Array;
  readonly port: ServerPort;
}

interface Running {
  readonly source: Uint8Array;
  readonly abort: AbortController;
  readonly timer: Timer;
  /** The memory of a long request: of short ones the module bounds the number. */
  readonly held: Share | undefined;
}

/** A server of one kind of datagrams: an instance of the module, which asks the handler. */
export class RpcReplica {
  readonly #parts: ReplicaParts;
  readonly #engine: Engine;
  readonly #running: Map<number, Running> = new Map();
  readonly #held: Shares = new Shares(SOURCE_HELD, MAX_HELD);
  readonly #tickets: Map<number, PromiseWithResolvers<Uint8Array>> = new Map();
  #lastTag = 0;

  constructor(instance: ModuleInstance, parts: ReplicaParts) {
    this.#parts = parts;
    const { module, timers, logger, config } = parts;
    this.#engine = new Engine(instance, {
      module,
      timers,
      logger,
      config,
      take: (output) => this.#take(output),
      refused: (input, code) => logger.log("error", `rpc.wasm refused ${input.type}`, code),
      lost: (error) => this.#lost(error),
    });
  }

  /** Takes an input; `stepped` is called when the module has taken it. `false` if it takes none now. */
  push(input: RpcInput, stepped?: () => void): boolean {
    if (this.#engine.failure !== undefined) return false;
    this.#engine.push(input, stepped);
    return true;
  }

  /** Issues a ticket to a peer whose id was proven. */
  issue(caller: Uint8Array): Promise<Uint8Array> {
    const issued = Promise.withResolvers<Uint8Array>();
    const tag = this.#lastTag;
    this.#lastTag = (tag + 1) % MAX_TAG;
    this.#tickets.set(tag, issued);
    const { failure } = this.#engine;
    if (failure !== undefined) issued.reject(failure);
    else this.#engine.push({ type: "IssueTicket", tag, caller, endpoint: UNKNOWN });
    return issued.promise.finally(() => this.#tickets.delete(tag));
  }

  /** Ends it: calls are given up. */
  close(): void {
    this.#engine.close();
  }

  #take(output: RoleOutput): void {
    switch (output.type) {
      case "Send":
        return this.#parts.port.send(output.target, output.bytes);
      case "Serve":
        return this.#serve(output);
      case "Cancelled": {
        const running = this.#end(
          output.call,
          new MeshError("Cancelled", "the caller has given the call up"),
        );
        if (running !== undefined) this.#parts.port.end?.(running.source);
        return;
      }
      case "Issued":
        return this.#tickets.get(output.tag)?.resolve(output.grant.slice());
      default:
        this.#parts.logger.log("error", `rpc.wasm asks a server for ${output.type}`);
    }
  }

  #serve({ call, caller, source, options, timeout_ms: given_ms, payload }: Serve): void {
    const { timers, port } = this.#parts;
    const timeout_ms = Math.min(given_ms, MAX_TIMER_MS);
    const abort = new AbortController();
    const timer = timers.after(timeout_ms, () => this.#answer(call, codeNumber("Deadline")));
    const from = addressOf(source);
    const isLong = payload.length > UDP_DATAGRAM;
    const held = isLong ? this.#held.take(from.ip, payload.length) : undefined;
    this.#running.set(call, { source: source.slice(), abort, timer, held });
    port.served?.(source);
    if (isLong && held === undefined) return this.#answer(call, codeNumber("TooManyRequests"));
    const request: RpcRequest = {
      payload: payload.slice() as Uint8Array<ArrayBuffer>,
      caller: toHex(caller),
      source: textOfIpPort(from),
      isIdempotent: (options & IDEMPOTENT) !== 0,
      timeout_ms,
      signal: abort.signal,
    };
    this.#carryOut(call, request);
  }

  #carryOut(call: number, request: RpcRequest): void {
    const failed = (error: unknown): void => {
      const fault = faultIn(error);
      const { logger, service } = this.#parts;
      if (fault !== undefined)
        logger.log("error", `the RPC handler of ${service} failed: ${fault}`, refusalOf(error));
      this.#answer(call, refusalOf(error));
    };
    try {
      const answer = this.#parts.handler(request);
      if (isPromise(answer)) answer.then((bytes) => this.#answer(call, checkedAnswer(bytes))).catch(failed);
      else this.#answer(call, checkedAnswer(answer));
    } catch (error) {
      failed(error);
    }
  }

  #answer(call: number, outcome: RpcOutcome): void {
    const isRefused = typeof outcome === "number";
    const running = this.#end(call, isRefused ? new MeshError(outcome) : undefined);
    if (running === undefined) return;
    const input: RpcInput = isRefused
      ? { type: "Refuse", call, code: outcome }
      : // The handler may use its memory again before the step.
        { type: "Answer", call, payload: outcome.slice() };
    // What the module has not sent by then it never sends: the session may be forgotten.
    this.#engine.push(input, () => this.#parts.port.end?.(running.source));
  }

  /** Ends a call in the host; the handler hears a reason, if there is one to stop. */
  #end(call: number, reason: MeshError | undefined): Running | undefined {
    const running = this.#running.get(call);
    if (running === undefined) return undefined;
    this.#running.delete(call);
    running.timer.cancel();
    running.held?.release();
    if (reason !== undefined) running.abort.abort(reason);
    return running;
  }

  #lost(error: MeshError): void {
    for (const call of this.#running.keys()) this.#end(call, error);
    for (const { reject } of this.#tickets.values()) reject(error);
    this.#parts.port.lost?.(error);
  }
}
