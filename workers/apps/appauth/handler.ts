import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";

import { Attempts } from "./attempts.ts";
import { mediaType } from "./check.ts";
import { type Credentials, parseCredentials } from "./credentials.ts";
import { CONTENT_SECURITY_POLICY, loginPage } from "./page.ts";
import { CHECK, checkRequest, parseVerdict, type Verdict, verdictOf } from "./verdict.ts";

/** A login is two short texts. */
const MAX_BODY_BYTES = 8 * 1024;
/** Providers that may be lost while they check. */
const MAX_ATTEMPTS = 3;
const NOBODY = "Nobody can check the password right now. Try again in a moment.";

/** What the handler needs of its platform. */
export type HandlerOptions = {
  /** Sends a request through the mesh, on behalf of the one in the context. */
  fetch: (url: string, init: RequestInit, c: Context) => Promise<Response>;
  /** Calls `check` by RPC, if the platform has it; where that fails, or gives `undefined`, `check` is asked through the mesh. */
  call?: ((login: Uint8Array, c: Context) => Promise<Uint8Array | undefined>) | undefined;
  /** What is told in the header `served-by`, such as `workerd`. */
  servedBy: string;
  /**
   * Who asks, such as an IP address or a peer id: one source has 10 wrong passwords in a minute. `undefined` where the platform
   * does not say; nobody is limited then.
   */
  sourceOf?: ((c: Context) => string | undefined) | undefined;
  /** The attempts of all sources, where handlers share them. */
  attempts?: Attempts | undefined;
  /** Hears of each login that was right or wrong, before it is answered. */
  onLogin?: ((login: Login, c: Context) => void) | undefined;
};

/** A login that somebody has checked. */
export type Login = { user: string; status: 200 | 401; checkedBy: string };

/** An outcome as a status, a sentence, and who checked. */
type Outcome = {
  status: 200 | 400 | 401 | 413 | 415 | 429 | 503;
  text: string;
  user?: string;
  checkedBy?: string;
  /** How `check` was asked. */
  over?: "HTTP" | "RPC";
};

/**
 * The public entrance: `GET /login` is a form, `POST /login` takes the form or the same as JSON and asks `check`.
 *
 * 200 for a right password, 401 for a wrong one, 400 for a body that is no login, 413 for one too large, 415 for
 * another type, 429 for too many wrong passwords of one source, 503 when nobody can check. Browsers are answered in HTML, programs in JSON.
 */
export function handler({
  fetch,
  call,
  servedBy,
  sourceOf,
  attempts = new Attempts(),
  onLogin,
}: HandlerOptions): Hono {
  const app = new Hono();
  const limited = async (c: Context): Promise<Outcome> => {
    const source = sourceOf?.(c);
    const attempt = source === undefined ? undefined : attempts.begin(source);
    if (source !== undefined && attempt === undefined) {
      return { status: 429, text: "Too many wrong passwords. Try again in a minute." };
    }
    const outcome = await login(c, { fetch, call, onLogin });
    if (outcome.status !== 401) attempt?.isRight();
    return outcome;
  };
  app.use("/login", async (c, next) => {
    await next();
    c.header("served-by", servedBy);
    c.header("cache-control", "no-store");
    c.header("x-content-type-options", "nosniff");
  });
  app.get("/login", (c) => page(c, undefined));
  app.post(
    "/login",
    bodyLimit({
      maxSize: MAX_BODY_BYTES,
      onError: (c) => answer(c, { status: 413, text: "The request is too large." }),
    }),
    async (c) => answer(c, await limited(c)),
  );
  app.all("/login", (c) => c.json({ error: "send a GET or a POST" }, 405, { allow: "GET, HEAD, POST" }));
  return app;
}

async function login(
  c: Context,
  { fetch, call, onLogin }: Pick<HandlerOptions, "fetch" | "call" | "onLogin">,
): Promise<Outcome> {
  const read = READERS[mediaType(c.req.header("content-type"))];
  if (read === undefined) return { status: 415, text: "Send a form or application/json." };
  const credentials = parseCredentials(await read(c).catch(() => undefined));
  if (credentials === undefined) return { status: 400, text: "Send user and password." };
  const outcome = await askCheck(credentials, {
    fetch: (url, init) => fetch(url, init, c),
    call: call && ((login) => call(login, c)),
  });
  const { status, checkedBy = "" } = outcome;
  if (status === 200 || status === 401) onLogin?.({ user: credentials.user, status, checkedBy }, c);
  return outcome;
}

const READERS: Readonly<Record<string, (c: Context) => Promise<unknown>>> = {
  "application/json": (c) => c.req.json(),
  "application/x-www-form-urlencoded": async (c) =>
    Object.fromEntries(new URLSearchParams(await c.req.text())),
};

/** The ways to ask `check` on behalf of one request. */
type Asking = {
  fetch: (url: string, init: RequestInit) => Promise<Response>;
  call: ((login: Uint8Array) => Promise<Uint8Array | undefined>) | undefined;
};

async function askCheck(credentials: Credentials, { fetch, call }: Asking): Promise<Outcome> {
  // Keyboards compose accents differently; whoever checks compares bytes.
  const login = JSON.stringify({ ...credentials, password: credentials.password.normalize("NFC") });
  const called = call && (await callCheck(call, login));
  let verdict: Verdict;
  try {
    verdict = called ?? (await persist(async () => verdictOf(await fetch(CHECK, checkRequest(login)))));
  } catch (error) {
    warn("check did not answer", error);
    return { status: 503, text: NOBODY };
  }
  const { status, checkedBy } = verdict;
  const checked = { checkedBy, over: called === undefined ? "HTTP" : "RPC" } as const;
  if (status === 200)
    return { status, text: `Welcome, ${credentials.user}.`, user: credentials.user, ...checked };
  if (status === 401) return { status, text: "Wrong user or password.", ...checked };
  console.warn(`appauth: check answered ${status}`);
  return { status: 503, text: NOBODY, ...checked };
}

/** The verdict by RPC; none if that fails, which does no harm: a check changes nothing. */
async function callCheck(call: NonNullable<Asking["call"]>, login: string): Promise<Verdict | undefined> {
  try {
    const answer = await call(new TextEncoder().encode(login));
    return answer && parseVerdict(answer);
  } catch (error) {
    warn("check did not answer by RPC", error);
    return undefined;
  }
}

function warn(what: string, error: unknown): void {
  console.warn(`appauth: ${what}: ${error instanceof Error ? error.message : String(error)}`);
}

/** A check changes nothing, so one whose provider is lost on the way is sent to another. */
async function persist<T>(attempt: () => Promise<T>): Promise<T> {
  for (let left = MAX_ATTEMPTS - 1; left > 0; left--) {
    try {
      return await attempt();
    } catch {
      // The last attempt tells why.
    }
  }
  return attempt();
}

function answer(c: Context, outcome: Outcome): Response | Promise<Response> {
  if (outcome.status === 503) c.header("retry-after", "1");
  if (outcome.status === 429) c.header("retry-after", "60");
  if (c.req.header("accept")?.includes("text/html")) return page(c, outcome);
  const { status, text, ...rest } = outcome;
  return c.json(status === 200 ? { message: text, ...rest } : { error: text, ...rest }, status);
}

function page(c: Context, outcome: Outcome | undefined): Response | Promise<Response> {
  c.header("content-security-policy", CONTENT_SECURITY_POLICY);
  return c.html(loginPage(outcome), outcome?.status ?? 200);
}
