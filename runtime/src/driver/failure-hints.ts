import { type CodeName, codeName, codeNumber, errorOf, type MeshError } from "../codec/code.ts";

/** Why a member of a closed network refuses a node. */
const REFUSALS: ReadonlySet<CodeName> = /* @__PURE__ */ new Set([
  "BadCertificate",
  "BadSignature",
  "EarlyCertificate",
  "ExpiredCertificate",
  "NoCertificate",
  "RevokedCertificate",
  "WrongIssuer",
  "WrongSeat",
]);

/** What the host knows of failures that the core tells by their codes alone. */
export class FailureHints {
  /** Which address was last dialled in vain, and why. */
  dial = "";
  /** Why the store failed last. */
  store = "";
  /** Why a path failed of which the next step tells the core. */
  path = "";
  /** Whether the core has left a private address out since it was last told to join. */
  #hasRefusedPrivate = false;
  /** Why a peer has not taken this node's certificate since then; 0 if none has refused it. */
  #refusal = 0;

  /** The core is told to join. */
  joins(): void {
    this.#hasRefusedPrivate = false;
    this.#refusal = 0;
  }

  /** The core has logged something. */
  logged(code: number, text: string): void {
    if (code === codeNumber("ForbiddenAddress")) this.#hasRefusedPrivate = true;
    const name = codeName(code);
    // A log of what this node refuses has a text.
    if (text === "" && name !== undefined && REFUSALS.has(name)) this.#refusal = code;
  }

  /** The error of a command that failed, of a node with these bootstraps. */
  errorOf(code: number, detail: string, bootstraps: readonly string[]): MeshError {
    // The core says why at the next attempt alone.
    const isRefused = code === codeNumber("NoBootstrap") && this.#refusal !== 0;
    const known = isRefused ? this.#refusal : code;
    return errorOf(known, detail || this.#detailOf(known, bootstraps));
  }

  #detailOf(code: number, bootstraps: readonly string[]): string {
    const isDial = code === codeNumber("DialFailed") && this.dial !== "";
    if (isDial) return `no path to the peer could be opened: ${this.dial}`;
    if (code === codeNumber("NoBootstrap")) return this.#joinFailure(bootstraps);
    if (code === codeNumber("StoreFailed")) return this.store;
    const isLoss = code === codeNumber("Disconnected") && this.path !== "";
    return isLoss ? `the connection to the peer ended: ${this.path}` : "";
  }

  /** Why the bootstraps did not let this node in, as far as the core said. */
  #joinFailure(bootstraps: readonly string[]): string {
    const through = `joining through ${bootstraps.map((url) => url.split("#", 1)).join(", ")}`;
    return this.#hasRefusedPrivate
      ? `${through}, a private address was refused: set allowPrivate if that is meant`
      : `${through} failed: they do not answer, have not joined yet themselves, or have no room`;
  }
}
