import { Activity } from "./activity.ts";
import type { PageConfig } from "./config.ts";
import { byId } from "./dom.ts";
import { type Ring, shortId } from "./model.ts";
import { renderNodes } from "./nodes-table.ts";
import { RingView } from "./ring-view.ts";
import { type Asked, changes, look } from "./watch.ts";

/** Often enough to see a node come and go. */
const LOOK_MS = 2000;
/** More of an answer would not be read. */
const MAX_SHOWN = 4000;

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
  readonly #view: RingView = new RingView(byId("ring", SVGSVGElement));
  readonly #activity: Activity = new Activity(byId("calls", HTMLOListElement));
  readonly #names: Set<string>;
  #ring: Ring | undefined;
  #withdraw: (() => Promise<void>) | undefined;

  constructor(mesh: PageMesh, config: PageConfig) {
    this.#mesh = mesh;
    this.#config = config;
    this.#names = new Set(config.owned);
  }

  /** Starts to look at the ring and to listen to the forms. */
  start(): void {
    byId("network", HTMLElement).textContent = this.#config.network;
    onSubmit("serve-form", () => this.#toggleService());
    onSubmit("call-form", () => this.#call());
    const name = byId("serve-name", HTMLInputElement);
    name.addEventListener("input", () => this.#showCurl());
    this.#showCurl();
    byId("copy", HTMLButtonElement).addEventListener("click", () => void this.#copy());
    document.addEventListener("visibilitychange", () => void this.look());
    void this.#lookForever();
  }

  /** Looks at the ring once and shows it. */
  async look(): Promise<void> {
    if (document.hidden) return;
    try {
      const ring = await look(this.#mesh, this.#names);
      for (const change of changes(this.#ring, ring)) this.#activity.note(change);
      this.#ring = ring;
      this.#view.render(ring);
      renderNodes(byId("nodes", HTMLTableSectionElement), ring);
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
    this.#view.pulse(caller, this.#mesh.id);
    return response;
  }

  async #call(): Promise<void> {
    const [name, path] = ["call-name", "call-path"].map((id) => byId(id, HTMLInputElement).value) as [
      string,
      string,
    ];
    const result = byId("call-result", HTMLOutputElement);
    const start = performance.now();
    result.removeAttribute("data-ok");
    result.value = `Calling https://${name}.mesh${path}`;
    this.#names.add(name);
    this.#pulseToProvider(name);
    try {
      const response = await this.#mesh.fetch(name, path);
      const text = (await response.text()).slice(0, MAX_SHOWN);
      result.value = `${response.status} in ${(performance.now() - start).toFixed(0)} ms\n${text}`;
      result.setAttribute("data-ok", String(response.ok));
    } catch (error) {
      result.value = messageOf(error);
      result.setAttribute("data-ok", "false");
    }
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
    void act();
  });
}
