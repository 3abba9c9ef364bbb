import { html } from "./dom.ts";
import { shortId } from "./model.ts";

/** More would only be scrolled past. */
const MAX_ENTRIES = 100;

/** A call that this page answered. */
export type Call = {
  method: string;
  path: string;
  caller: string;
  assurance: string;
  status: number;
  ms: number;
};

/** The list of what happened, newest first. */
export class Activity {
  readonly #list: HTMLOListElement;

  constructor(list: HTMLOListElement) {
    this.#list = list;
  }

  /** Notes a call that this page answered. */
  call({ method, path, caller, assurance, status, ms }: Call): void {
    const from = html("span", "from", caller ? `from ${shortId(caller)} (${assurance})` : "");
    const what = html("span", "what", `${method} ${path} `);
    what.append(from);
    this.#add("call", what, `${status} in ${ms.toFixed(0)} ms`);
  }

  /** Notes anything else. */
  note(text: string): void {
    this.#add("note", html("span", "what", text), "");
  }

  #add(kind: string, what: HTMLElement, result: string): void {
    const item = html("li", kind);
    const now = new Date();
    const time = html("time", "", now.toLocaleTimeString([], { hour12: false }));
    time.dateTime = now.toISOString();
    item.append(time, what, html("span", "from", result));
    this.#list.prepend(item);
    while (this.#list.children.length > MAX_ENTRIES) this.#list.lastElementChild?.remove();
  }
}
