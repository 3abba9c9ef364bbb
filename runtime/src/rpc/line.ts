import { codeNumber, MeshError } from "../codec/code.ts";
import { encodeRpcClientConfig, IDEMPOTENT, type RpcInput } from "../codec/rpc.ts";
import type { ModuleInstance } from "../driver/instance.ts";
import type { Logger } from "../driver/log.ts";
import type { Timers } from "../driver/timers.ts";
import { detach, reasonOf } from "../guard.ts";
import type { RpcAddress } from "./address.ts";
import { Engine, instantiate, type RoleOutput } from "./engine.ts";
import type { KeptTicket } from "./kept-tickets.ts";
import type { Way, WayHost } from "./way.ts";

const EMPTY = /* @__PURE__ */ new Uint8Array();

/** An answer, and who gave it. */
export interface RpcAnswer {
  /** The answer. */
  readonly payload: Uint8Array<ArrayBuffer>;
  /** The server that carried the call out, as `IP:port` or a URL. */
  readonly server: string;
}

/** The parts of a line. */
export interface LineParts {
  readonly timers: Timers;
  readonly logger: Logger;
  /** Makes the way of its datagrams. */
  readonly way: (host: WayHost) => Way;
  /** Asks a service for another ticket. */
  readonly ticket: (service: string) => Promise<Uint8Array>;
  /** Tickets that came before it, the oldest first. */
  readonly kept: readonly KeptTicket[];
}

/** A call of a line. */
export interface LineCall {
  readonly service: string;
  readonly address: RpcAddress;
  readonly payload: Uint8Array;
  readonly isIdempotent: boolean;
  readonly timeout_ms: number;
  readonly signal: AbortSignal | undefined;
}

interface Pending {
  readonly target: string;
  readonly isIdempotent: boolean;
  readonly until_ms: number;
  readonly settled: PromiseWithResolvers<RpcAnswer>;
}

/** The calls of a client over one way, UDP or HTTP: an instance of the module and what carries its datagrams. */
export class Line {
  readonly #parts: LineParts;
  readonly #way: Way;
  readonly #engine: Engine;
  readonly #calls: Map<number, Pending> = new Map();
  readonly #numbers: Map<string, number> = new Map();
  readonly #names: string[] = [];
  #lastCall = 0;
  #until_ms = 0;

  constructor(module: WebAssembly.Module, instance: ModuleInstance, parts: LineParts) {
    this.#parts = parts;
    this.#way = parts.way({
      received: (source, bytes) => this.#engine.push({ type: "Datagram", source, bytes }),
      forbidden: (address, error) => this.#forbidden(address, error),
    });
    const { timers, logger } = parts;
    this.#engine = new Engine(instance, {
      module,
      timers,
      logger,
      config: () => encodeRpcClientConfig(this.#way.datagramBytes),
      take: (output) => this.#take(output),
      refused: (input, code) => this.#refused(input, code),
      lost: (error) => this.#lost(error),
    });
    for (const { service, grant, came_us } of parts.kept) {
      this.#engine.replay({ type: "UseTicket", service: this.#numberOf(service), grant }, came_us);
      grant.fill(0);
    }
  }

  /** Makes a line without calls. */
  static async open({
    module,
    ...parts
  }: LineParts & { module: Promise<WebAssembly.Module> }): Promise<Line> {
    const compiled = await module;
    return new Line(compiled, await instantiate(compiled), parts);
  }

  /** Uses a ticket for a service from now on. */
  useTicket(service: string, grant: Uint8Array): void {
    this.#engine.push({ type: "UseTicket", service: this.#numberOf(service), grant });
  }

  /** Makes a call. */
  async call({ service, address, payload, isIdempotent, timeout_ms, signal }: LineCall): Promise<RpcAnswer> {
    signal?.throwIfAborted();
    if (this.#engine.failure !== undefined) throw this.#engine.failure;
    const call = this.#nextCall();
    const target = this.#way.endpointOf(address);
    const pending: Pending = {
      target: this.#way.textOf(target),
      isIdempotent,
      until_ms: performance.now() + timeout_ms,
      settled: Promise.withResolvers(),
    };
    this.#calls.set(call, pending);
    this.#until_ms = Math.max(this.#until_ms, pending.until_ms);
    this.#way.busy(this.#until_ms);
    const options = isIdempotent ? IDEMPOTENT : 0;
    const number = this.#numberOf(service);
    this.#engine.push({ type: "Call", call, service: number, target, options, timeout_ms, payload });
    const cancel = (): void => this.#cancel(call, signal?.reason);
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      return await pending.settled.promise;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  /** Gives up all calls. */
  close(): void {
    for (const call of this.#calls.keys())
      this.#cancel(call, new MeshError("Cancelled", "the client of the RPC was closed"));
    this.#engine.close();
    this.#way.close();
  }

  #nextCall(): number {
    do this.#lastCall = (this.#lastCall + 1) >>> 0;
    while (this.#calls.has(this.#lastCall));
    return this.#lastCall;
  }

  #numberOf(service: string): number {
    const known = this.#numbers.get(service);
    if (known !== undefined) return known;
    const number = this.#names.push(service) - 1;
    this.#numbers.set(service, number);
    return number;
  }

  #take(output: RoleOutput): void {
    switch (output.type) {
      case "Send":
        return this.#way.send(output.target, output.bytes);
      case "Done": {
        const server = this.#way.textOf(output.source);
        const payload = output.payload.slice() as Uint8Array<ArrayBuffer>;
        return this.#end(output.call, ({ settled }) => settled.resolve({ payload, server }));
      }
      case "Failed":
        return this.#end(output.call, ({ settled, target }) =>
          settled.reject(failureOf(output.code, target)),
        );
      case "TicketWanted":
        return detach("a ticket", this.#renew(output.service));
      default:
        this.#parts.logger.log("error", `rpc.wasm asks a client for ${output.type}`);
    }
  }

  async #renew(number: number): Promise<void> {
    const service = this.#names[number] ?? "";
    let grant: Uint8Array = EMPTY;
    try {
      grant = await this.#parts.ticket(service);
    } catch (error) {
      const reason = reasonOf(error);
      this.#parts.logger.log("warn", `there is no ticket of ${service} to be had: ${reason}`);
    }
    this.#engine.push({ type: "UseTicket", service: number, grant });
  }

  #refused(input: RpcInput, code: number): void {
    if (input.type === "Call")
      return this.#end(input.call, ({ settled }) => settled.reject(new MeshError(code)));
    if (input.type !== "UseTicket") return this.#parts.logger.log("error", "rpc.wasm refused an input", code);
    // Calls that wait for it would wait for ever.
    this.#parts.logger.log("warn", `the ticket of ${this.#names[input.service]} is none`, code);
    this.#engine.push({ type: "UseTicket", service: input.service, grant: EMPTY });
  }

  #cancel(call: number, reason: unknown): void {
    if (!this.#calls.has(call)) return;
    this.#engine.push({ type: "Cancel", call });
    this.#end(call, ({ settled }) => settled.reject(reason));
  }

  #forbidden(address: string, error: unknown): void {
    for (const [call, { target }] of this.#calls) if (target === address) this.#cancel(call, error);
  }

  #lost(error: MeshError): void {
    for (const [call, { isIdempotent }] of this.#calls) {
      const reason = isIdempotent ? error : new MeshError("OutcomeUnknown", "", { cause: error });
      this.#end(call, ({ settled }) => settled.reject(reason));
    }
  }

  #end(call: number, settle: (pending: Pending) => void): void {
    const pending = this.#calls.get(call);
    if (pending === undefined) return;
    this.#calls.delete(call);
    settle(pending);
    if (this.#calls.size > 0) return;
    this.#until_ms = 0;
    this.#way.busy(undefined);
  }
}

function failureOf(code: number, target: string): MeshError {
  if (code !== codeNumber("TimedOut")) return new MeshError(code);
  const text = `${target} did not answer in time: compare address, key, network and service if it never does`;
  return new MeshError(code, text);
}
