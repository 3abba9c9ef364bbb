import { codeNumber, errorAfter, MeshError, type Tried } from "../codec/code.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import { encodeRequestHead, type HeaderList, MAX_HEAD, MAX_HEADERS } from "../codec/http.ts";
import type { Command } from "../codec/input.ts";
import { detach } from "../guard.ts";
import { withoutHandshake } from "../websocket/handshake.ts";
import { type Answer, discard, readAnswer } from "./answer.ts";
import { ReplayableBody } from "./body.ts";
import type { Driver } from "./driver.ts";
import { faultOf, headerList, pathOf } from "./http.ts";
import { saidLength } from "./length.ts";
import type { CallObservation } from "./observe.ts";
import type { Asked } from "./request.ts";
import type { Target } from "./service.ts";
import type { Shortcut } from "./shortcut.ts";
import type { MeshStream } from "./streams.ts";

/** Reasons that say that the connection to a provider ended or fell silent. */
const LOST: ReadonlySet<string> = /* @__PURE__ */ new Set(["Disconnected", "TimedOut"]);
/** Methods that may be carried out twice (RFC 9110, 9.2.2), but for TRACE. */
export const IDEMPOTENT: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "GET",
  "HEAD",
  "OPTIONS",
  "PUT",
  "DELETE",
]);
/** Answers of a provider that another one may do better. */
const GATEWAY_ERRORS: ReadonlySet<number> = /* @__PURE__ */ new Set([502, 503, 504]);

/** A request on its way into the mesh. */
export interface Outgoing extends Asked {
  /** Headers that ask for a WebSocket, if the request does. */
  readonly upgrade?: HeaderList | undefined;
  /** Carries the first attempt, if the request is at hand as a whole. */
  readonly shortcut?: Shortcut | undefined;
  /** Hears of each attempt. */
  readonly observation?: Pick<CallObservation, "attempt"> | undefined;
}

/**
 * Sends a request to a provider of a name and resolves with its answer, whose body streams. Where that is safe other
 * providers are tried, all within one deadline.
 */
export function call(driver: Driver, target: Target, outgoing: Outgoing): Promise<Answer> {
  return new Call(driver, target, outgoing).run();
}

interface Attempt {
  /** The stream, once one was opened. */
  stream: MeshStream | undefined;
  /** Whether a byte of the answer has arrived. */
  hasBegun: boolean;
}

/** One request, over all its attempts. */
class Call {
  readonly #driver: Driver;
  readonly #target: Target;
  readonly #outgoing: Outgoing;
  #head: Uint8Array = new Uint8Array();
  /** How long the body is, as the head says. */
  #length: number | undefined;
  readonly #body: ReplayableBody;
  readonly #deadline_ms: number;
  readonly #tried: Tried[] = [];
  /** The last answer that another provider was to do better. */
  #held: Answer | undefined;
  /** Why the last provider that took the request gave no answer. */
  #failure: MeshError | undefined;
  /** Whether providers that lost their connection may be asked once more. */
  #isForgiving = false;
  /** Whether the shortcut was asked. */
  #isCut = false;

  constructor(driver: Driver, target: Target, outgoing: Outgoing) {
    this.#driver = driver;
    this.#target = target;
    this.#outgoing = outgoing;
    this.#body = new ReplayableBody(outgoing.body);
    this.#deadline_ms = performance.now() + target.timeout_ms;
  }

  async run(): Promise<Answer> {
    const { peer, retries } = this.#target;
    this.#length = await this.#measured();
    this.#head = requestHead(this.#outgoing, this.#length);
    for (let left = retries; ; left--) {
      const attempt: Attempt = { stream: undefined, hasBegun: false };
      try {
        const answer = await this.#attempt(attempt);
        // There is no other provider where one peer is asked for.
        const isPoor = GATEWAY_ERRORS.has(answer.status) && peer === undefined;
        const mayRetry = left > 0 && isPoor && this.#mayRepeat();
        if (!mayRetry) return this.#accept(answer);
        this.#hold(answer);
      } catch (error) {
        const mayRetry = this.#failed(attempt, error) && left > 0;
        if (!mayRetry) return this.#settle(error);
      }
    }
  }

  /** The length that the head says. */
  async #measured(): Promise<number | undefined> {
    const { request, body, length, isStream } = this.#outgoing;
    const hasBody = body !== null && body !== undefined;
    const known = length ?? (hasBody && !isStream ? await this.#body.readAhead() : undefined);
    return saidLength(request.method, hasBody, known);
  }

  /** Sends the request to a provider that was not tried. */
  async #attempt(attempt: Attempt): Promise<Answer> {
    const { upgrade, cancellation } = this.#outgoing;
    const { signal } = cancellation;
    const quick = await this.#takeShortcut();
    const stream = quick ?? (await this.#driver.openStream((tag) => this.#command(tag), signal));
    attempt.stream = stream;
    stream.retain(cancellation);
    if (quick === undefined) this.#outgoing.observation?.attempt(toHex(stream.peer));
    const cancel = (): void => stream.reset(codeNumber("Cancelled"));
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) cancel();
    try {
      // Whoever asks for another protocol does not know yet in which one to go on.
      if (upgrade === undefined && quick === undefined)
        detach("the body of a request", this.#body.send(stream, this.#length));
      const answer = await readAnswer(stream, () => {
        attempt.hasBegun = true;
      });
      if (answer.status !== 101) {
        if (upgrade !== undefined) stream.end();
      } else if (upgrade === undefined) {
        stream.reset(codeNumber("BadMessage"));
        throw new MeshError("BadMessage", "the service switches to a protocol that nobody asked for");
      }
      return answer;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  /** Sends the request by the shortcut, at most once; `undefined` if it was not. */
  async #takeShortcut(): Promise<MeshStream | undefined> {
    const { shortcut, isStream, request, cancellation } = this.#outgoing;
    if (shortcut === undefined || isStream || this.#isCut) return undefined;
    this.#isCut = true;
    await this.#body.readAhead();
    const { whole } = this.#body;
    if (whole === undefined || whole.length !== (this.#length ?? whole.length)) return undefined;
    const { name } = this.#target;
    const { method, url } = request;
    const { signal } = cancellation;
    return shortcut.send({
      name,
      method,
      url,
      head: this.#head,
      body: whole,
      timeout_ms: this.#left_ms,
      signal,
    });
  }

  get #left_ms(): number {
    return Math.max(1, Math.ceil(this.#deadline_ms - performance.now()));
  }

  #command(tag: number): Command {
    const { name, owner, peer, key, policy } = this.#target;
    const head = this.#head;
    const timeout_ms = this.#left_ms;
    if (peer !== undefined) return { type: "CallPeer", tag, peer, owner, name, timeout_ms, head };
    const avoided = this.#tried.filter(({ reason }) => !this.#isForgiving || !LOST.has(reason));
    const tried = Uint8Array.from(avoided.flatMap(({ peer }) => [...fromHex(peer, 32, "a peer id")]));
    return { type: "Call", tag, owner, name, key, tried, policy, timeout_ms, head };
  }

  /** Takes note of an attempt that failed; says whether the request may be sent to another provider. */
  #failed({ stream, hasBegun }: Attempt, error: unknown): boolean {
    const { signal } = this.#outgoing.cancellation;
    const isOurs = signal?.aborted === true || this.#body.failure !== undefined;
    if (isOurs || !(error instanceof MeshError)) return false;
    if (stream === undefined) {
      if (this.#forgives()) return this.#mayRepeat();
      // Nobody took it: unless it was too late, what the attempt before came to tells more.
      if (this.#failure === undefined || error.name === "Deadline") this.#failure = error;
      this.#tried.push(...error.tried);
      return false;
    }
    this.#failure = error;
    this.#note(stream, error.name as Tried["reason"]);
    const isElsewhere = this.#target.peer === undefined || LOST.has(error.name);
    return !hasBegun && isElsewhere && isTransient(error) && this.#mayRepeat();
  }

  /** Nobody else takes the request: a provider whose connection was lost may be reached over another one, once. */
  #forgives(): boolean {
    if (this.#isForgiving) return false;
    this.#isForgiving = this.#tried.some(({ reason }) => LOST.has(reason));
    return this.#isForgiving;
  }

  #mayRepeat(): boolean {
    const isInTime = performance.now() < this.#deadline_ms;
    return isInTime && IDEMPOTENT.has(this.#outgoing.request.method) && this.#body.isReplayable;
  }

  /** Notes the provider of an attempt; a shortcut's is not known. */
  #note({ peer }: MeshStream, reason: Tried["reason"]): void {
    if (peer.length > 0) this.#tried.push({ peer: toHex(peer), reason });
  }

  #hold(answer: Answer): void {
    this.#note(answer.stream, "HandlerFailed");
    if (this.#held !== undefined) discard(this.#held);
    this.#held = answer;
  }

  #accept(answer: Answer): Answer {
    if (this.#held !== undefined && this.#held !== answer) discard(this.#held);
    this.#body.follow(answer.stream);
    return answer;
  }

  /** Ends the request: an answer that was to be bettered is better than none. */
  #settle(error: unknown): Answer {
    const { signal } = this.#outgoing.cancellation;
    const { failure } = this.#body;
    const held = this.#held;
    if (held !== undefined && signal?.aborted !== true && failure === undefined) return this.#accept(held);
    if (held !== undefined) discard(held);
    this.#body.cancel(error);
    signal?.throwIfAborted();
    if (failure !== undefined) throw failure.error;
    if (this.#failure === undefined || this.#tried.length === 0) throw error;
    throw errorAfter(this.#failure, this.#tried);
  }
}

/** Whether another provider may fare better. A core that trapped may have been trapped by the request. */
function isTransient(error: MeshError): boolean {
  const { class: fault, name, cause } = error;
  const isOthers = fault === "Unreachable" || fault === "Limit" || fault === "Service";
  return isOthers && name !== "Deadline" && cause === undefined;
}

/** Encodes the head of a request whose body has this length. */
export function requestHead(
  { request, upgrade }: Pick<Outgoing, "request" | "upgrade">,
  length: number | undefined,
): Uint8Array {
  const url = new URL(request.url);
  const fields = headerList(request.headers).filter(([name]) => name !== "content-length");
  const given = length === undefined ? fields : [...fields, ["content-length", `${length}`] as const];
  const headers = upgrade === undefined ? given : [...withoutHandshake(given), ...upgrade];
  const fault = faultOf(request.method, headers);
  if (fault !== undefined) throw new MeshError("BadInput", `the request is malformed: ${fault}`);
  const head = encodeRequestHead({ method: request.method, path: pathOf(url), headers });
  if (head.length > MAX_HEAD || headers.length > MAX_HEADERS) {
    throw new MeshError(
      "TooLarge",
      `a request's head has at most ${MAX_HEAD} bytes and ${MAX_HEADERS} headers`,
    );
  }
  return head;
}
