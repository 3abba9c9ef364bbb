import type { Hono } from "hono";

/** What `check` says of a login: the status of its answer over HTTP, and who checked. */
export type Verdict = { readonly status: number; readonly checkedBy: string };

/** Where a request for `check` goes. */
export const CHECK = "https://check.mesh/";

/** A login as `check` takes it, over HTTP and by RPC. */
export function checkRequest(login: string | Uint8Array<ArrayBuffer>): RequestInit {
  return { method: "POST", headers: { "content-type": "application/json" }, body: login };
}

/** The verdict that an answer over HTTP is. */
export async function verdictOf(response: Response): Promise<Verdict> {
  await response.body?.cancel();
  return { status: response.status, checkedBy: response.headers.get("served-by") ?? "unknown" };
}

/** Carries calls of `check` out: the request is a login as JSON, the answer a verdict as JSON. */
export function callable(service: Hono): (call: { payload: Uint8Array<ArrayBuffer> }) => Promise<Uint8Array> {
  return async ({ payload }) => {
    const verdict = await verdictOf(await service.request(CHECK, checkRequest(payload)));
    return new TextEncoder().encode(JSON.stringify(verdict));
  };
}

/** The verdict that an answer of the RPC is; throws if it is none. */
export function parseVerdict(payload: Uint8Array): Verdict {
  const value: unknown = JSON.parse(new TextDecoder().decode(payload));
  const { status, checkedBy } = (value ?? {}) as Partial<Verdict>;
  if (typeof status !== "number" || typeof checkedBy !== "string" || checkedBy.length > 64) {
    throw new TypeError("check gave no verdict");
  }
  return { status, checkedBy };
}
