import { Activity } from "./activity.ts";
import type { CapsulePanel } from "./capsule/panel.ts";
import { COLLECTOR, collect } from "./collected.ts";
import type { PageConfig } from "./config.ts";
import { byId, setText } from "./dom.ts";
import { admissionText } from "./membership.ts";
import { groupedBy, type Ring, shortId } from "./model.ts";
import { renderNodes } from "./nodes-table.ts";
import { RequestsView } from "./requests-view.ts";
import { RingView } from "./ring-view.ts";
import { renderServices } from "./services-view.ts";
import { type Asked, changes, look } from "./watch.ts";

/** Often enough to see a node come and go. */
const LOOK_MS = 2000;
/** More of an answer would not be read. */
const MAX_SHOWN = 4000;
/** Calls of one click that are under way together. */
const AT_ONCE = 4;

/** Who called and how sure that is. */
export type Caller = { caller: string; assurance: string };

/** What the page does with its node. */
export type PageMesh = Asked & {
  readonly id: string;
  /** Serves a name until it is withdrawn by the function that comes back. */
  serve(
    name: string,
    answer: (request: Request, context: Caller) => Promise<Response>,
  ): Promise<() => Promise<void>>;
  /** Calls a service. */
  fetch(name: string, path: string): Promise<Response>;
};

/** The page: shows the ring, serves a name, calls others. */
export class Page {
  readonly #mesh: PageMesh;
  readonly #config: PageConfig;
  readonly #capsule: CapsulePanel;
  readonly #view: RingView = new RingView(byId("ring", SVGSVGElement));
  readonly #activity: Activity = new Activity(byId("calls", HTMLOListElement));
  readonly #requests: RequestsView;
  readonly #names: Set<string>;
  #ring: Ring | undefined;
  /** Whether somebody collects what nodes tell of their requests: then requests are drawn from that. */
  #isCollected = false;
  #withdraw: (() => Promise<void>) | undefined;

  constructor(mesh: PageMesh, config: PageConfig, capsule: CapsulePanel) {
    this.#mesh = mesh;
    this.#config = config;
    this.#capsule = capsule;
    this.#names = new Set([...config.owned, COLLECTOR]);
    const elements = {
      path: byId("path", HTMLOListElement),
      list: byId("requests", HTMLOListElement),
      hint: byId("no-requests", HTMLElement),
    };
    this.#requests = new RequestsView(elements, (trace) => this.#view.showWay(trace?.hops ?? []));
  }

  /** Starts to look at the ring and to listen to the forms. */
  start(): void {
    byId("network", HTMLElement).textContent = this.#config.network;
    onSubmit("serve-form", () => this.#toggleService());
    onSubmit("call-form", () => this.#call());
    const name = byId("serve-name", HTMLInputElement);
    name.addEventListener("input", () => this.#showCurl());
    this.#showCurl();
    byId("copy", HTMLButtonElement).addEventListener("click", () => this.#copy().catch(console.error));
    document.addEventListener("visibilitychange", () => this.look().catch(console.error));
    this.#lookForever().catch(console.error);
  }

  /** Looks at the ring once and shows it. */
  async look(): Promise<void> {
    if (document.hidden) return;
    this.#capsule.look().catch(console.error);
    try {
      const [ring, collected] = await Promise.all([
        look(this.#mesh, this.#names, this.#ring),
        collect((name, path) => this.#mesh.fetch(name, path)),
      ]);
      for (const change of changes(this.#ring, ring)) this.#activity.note(change);
      const isFirst = this.#ring === undefined;
      this.#isCollected = collected !== undefined;
      this.#ring = ring;
      this.#view.render(ring);
      renderNodes(byId("nodes", HTMLTableSectionElement), ring);
      setText(byId("admission", HTMLElement), admissionText(ring.membership, Date.now()));
      renderServices(byId("services", HTMLElement), ring, collected);
      const news = this.#requests.render(ring, collected);
      // What was there before the page came is no news.
      if (!isFirst) for (const { hops } of news) this.#view.run(hops);
      const members = ring.nodes.filter((node) => node.role === "member").length;
      showState("joined", `${members} members, this page is ${shortId(ring.self)}`);
    } catch (error) {
      showState("failed", `The ring does not answer: ${messageOf(error)}`);
    }
  }

  async #lookForever(): Promise<never> {
    for (;;) {
      await this.look();
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  async #toggleService(): Promise<void> {
    const button = byId("serve-button", HTMLButtonElement);
    const input = byId("serve-name", HTMLInputElement);
    button.disabled = true;
    try {
      if (this.#withdraw === undefined) {
        const name = input.value;
        this.#withdraw = await this.#mesh.serve(name, (request, caller) => this.#answer(request, caller));
        this.#names.add(name);
        this.#activity.note(`this page serves ${name}`);
      } else {
        await this.#withdraw();
        this.#withdraw = undefined;
        this.#activity.note(`this page serves ${input.value} no more`);
      }
    } catch (error) {
      this.#activity.note(`${input.value} could not be served: ${messageOf(error)}`);
    }
    const isServing = this.#withdraw !== undefined;
    button.textContent = isServing ? "Stop" : "Serve";
    button.disabled = false;
    input.readOnly = isServing;
    await this.look();
  }

  async #answer(request: Request, { caller, assurance }: Caller): Promise<Response> {
    const start = performance.now();
    const { pathname, search } = new URL(request.url);
    const path = pathname + search;
    const response = Response.json({
      answer: byId("serve-answer", HTMLInputElement).value,
      from: navigator.userAgent,
      method: request.method,
      path,
      caller,
      body: (await request.text()).slice(0, MAX_SHOWN),
    });
    const ms = performance.now() - start;
    this.#activity.call({ method: request.method, path, caller, assurance, status: response.status, ms });
    if (!this.#isCollected) this.#view.pulse(caller, this.#mesh.id);
    return response;
  }

  async #call(): Promise<void> {
    const [name, path, times] = ["call-name", "call-path", "call-times"].map(
      (id) => byId(id, HTMLInputElement).value,
    ) as [string, string, string];
    const result = byId("call-result", HTMLOutputElement);
    result.removeAttribute("data-ok");
    result.value = `Calling https://${name}.mesh${path}`;
    this.#names.add(name);
    try {
      const answer = await callTimes((isTold) => this.#callOnce(name, path, isTold), Number(times));
      result.value = answer.text;
      result.setAttribute("data-ok", String(answer.ok));
    } catch (error) {
      result.value = messageOf(error);
      result.setAttribute("data-ok", "false");
    }
  }

  async #callOnce(name: string, path: string, isTold: boolean): Promise<Answer> {
    const start = performance.now();
    if (!this.#isCollected) this.#pulseToProvider(name);
    const response = await this.#mesh.fetch(name, path);
    const text = isTold ? (await response.text()).slice(0, MAX_SHOWN) : "";
    if (!isTold) await response.body?.cancel();
    const { status, ok } = response;
    const by = response.headers.get("served-by") ?? "";
    return { status, ok, by, ms: performance.now() - start, text };
  }

  #pulseToProvider(name: string): void {
    const provider = this.#ring?.nodes.find((node) => node.services.includes(name));
    if (provider) this.#view.pulse(this.#mesh.id, provider.id);
  }

  #showCurl(): void {
    const name = byId("serve-name", HTMLInputElement).value;
    byId("curl", HTMLElement).textContent = `curl ${this.#config.gateway}/${encodeURIComponent(name)}/`;
  }

  async #copy(): Promise<void> {
    const button = byId("copy", HTMLButtonElement);
    const code = byId("curl", HTMLElement);
    try {
      await navigator.clipboard.writeText(code.textContent ?? "");
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    } catch {
      // Without permission the text is selected, ready for the keyboard.
      getSelection()?.selectAllChildren(code);
    }
  }
}

/** An answer to a call of this page. */
type Answer = { status: number; ok: boolean; by: string; ms: number; text: string };

/** Calls so many times, a few at once, and tells what came of it. */
async function callTimes(
  callOnce: (isTold: boolean) => Promise<Answer>,
  times: number,
): Promise<{ text: string; ok: boolean }> {
  if (!(times > 1)) {
    const { status, ok, ms, text } = await callOnce(true);
    return { text: `${status} in ${ms.toFixed(0)} ms\n${text}`, ok };
  }
  const start = performance.now();
  const answers: Answer[] = [];
  for (let left = times; left > 0; left -= AT_ONCE) {
    const some = Array.from({ length: Math.min(left, AT_ONCE) }, () => callOnce(false));
    answers.push(...(await Promise.all(some)));
  }
  const groups = groupedBy(answers, ({ status, by }) => `${status}${by && ` from ${by}`}`);
  const counts = [...groups].sort().map(([what, { length }]) => `${length} \u00d7 ${what}`);
  const took = `${times} answers in ${(performance.now() - start).toFixed(0)} ms`;
  return { text: [took, ...counts].join("\n"), ok: answers.every(({ ok }) => ok) };
}

/** Shows the state of the page's own node. */
export function showState(state: "starting" | "joined" | "failed", text: string): void {
  const element = byId("state", HTMLElement);
  // A screen reader speaks only of changes.
  if (element.getAttribute("data-state") === state && element.textContent === text) return;
  element.setAttribute("data-state", state);
  element.textContent = text;
}

/** What went wrong, for a person. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function onSubmit(id: string, act: () => Promise<void>): void {
  byId(id, HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    act().catch(console.error);
  });
}
