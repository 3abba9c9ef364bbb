import type { Collected } from "./collected.ts";
import { html, reconcile, setText } from "./dom.ts";
import { platformClass, type Ring, type RingNode, shortId } from "./model.ts";
import { milliseconds } from "./services-view.ts";
import type { Hop, Trace } from "./trace.ts";

/** The elements that the view fills. */
export type RequestsElements = { path: HTMLElement; list: HTMLElement; hint: HTMLElement };

/** Lists the latest requests of the ring, and shows the way of one of them: the latest, or the one that is chosen. */
export class RequestsView {
  readonly #elements: RequestsElements;
  readonly #onShown: (trace: Trace | undefined) => void;
  #chosen: string | undefined;
  #traces: Trace[] = [];
  #nodes: ReadonlyMap<string, Named> = new Map();

  /** `onShown` hears which request is shown. */
  constructor(elements: RequestsElements, onShown: (trace: Trace | undefined) => void) {
    this.#elements = elements;
    this.#onShown = onShown;
  }

  /** Shows what was told; returns the requests that were not known before. */
  render(ring: Ring, collected: Collected | undefined): Trace[] {
    const known = new Set(this.#traces.map(({ id }) => id));
    this.#traces = collected?.traces ?? [];
    this.#nodes = namesOf(ring, collected);
    this.#show(collected !== undefined);
    return this.#traces.filter(({ id }) => !known.has(id));
  }

  #show(isCollected: boolean): void {
    const { path, list, hint } = this.#elements;
    hint.hidden = this.#traces.length > 0;
    hint.textContent = isCollected
      ? "Nothing yet: requests through the ring appear here with their paths."
      : "No node of this ring collects what others tell of their requests (the service observability).";
    const shown = this.#traces.find(({ id }) => id === this.#chosen) ?? this.#traces[0];
    reconcile(
      list,
      this.#traces,
      ({ id }) => id,
      (trace) => this.#createItem(trace),
      (item, trace) => this.#updateItem(item, trace, trace === shown),
    );
    this.#renderPath(path, shown);
    this.#onShown(shown);
  }

  #createItem({ id }: Trace): HTMLLIElement {
    const item = html("li");
    const button = html("button", "request");
    button.type = "button";
    button.append(html("time"), html("span", "what"), html("span", "way"), html("span", "outcome"));
    button.addEventListener("click", () => {
      // Chosen again it is let go, and the latest is shown.
      this.#chosen = this.#chosen === id ? undefined : id;
      this.#show(true);
    });
    item.append(button);
    return item;
  }

  #updateItem(item: HTMLLIElement, { id, hops, start_ms, duration_ms }: Trace, isShown: boolean): void {
    const button = item.firstElementChild;
    const [time, what, way, outcome] = button?.children ?? [];
    const [first] = hops;
    if (!button || !time || !what || !way || !outcome || !first) return;
    button.setAttribute("aria-pressed", String(id === this.#chosen));
    button.classList.toggle("shown", isShown);
    setText(time, new Date(start_ms).toLocaleTimeString([], { hour12: false }));
    setText(what, `${first.method} ${first.service}`);
    setText(
      way,
      [first.from, ...hops.map(({ to }) => to)].map((peer) => this.#nameOf(peer).name).join(" \u2192 "),
    );
    setText(outcome, `${first.outcome} in ${milliseconds(duration_ms)}`);
    outcome.classList.toggle("failed", hops.some(isFailure));
  }

  #renderPath(path: HTMLElement, trace: Trace | undefined): void {
    path.hidden = trace === undefined;
    reconcile(
      path,
      trace?.hops ?? [],
      ({ key }) => key,
      createHop,
      (row, hop) => this.#updateHop(row, hop, trace as Trace),
    );
  }

  #updateHop(row: HTMLLIElement, hop: Hop, trace: Trace): void {
    const [label, bar, took] = row.children;
    if (!(label instanceof HTMLElement && bar instanceof HTMLElement) || !took) return;
    const [from, to] = [this.#nameOf(hop.from), this.#nameOf(hop.to)];
    row.className = platformClass(to.label);
    label.style.paddingInlineStart = `${hop.depth * 0.9}rem`;
    const [ends, asked] = label.children;
    if (ends) setText(ends, `${from.name} \u2192 ${to.name}`);
    if (asked) setText(asked, `${hop.method} ${hop.service}`);
    const [whole, inside] = bar.children;
    place(whole, hop.start_ms, hop.duration_ms, trace);
    place(inside, hop.inside?.start_ms ?? hop.start_ms, hop.inside?.duration_ms ?? 0, trace);
    setText(took, `${hop.outcome} \u00b7 ${milliseconds(hop.duration_ms)}`);
    took.classList.toggle("failed", isFailure(hop));
    row.title =
      hop.inside === undefined ? "" : `of which the service took ${milliseconds(hop.inside.duration_ms)}`;
  }

  #nameOf(peer: string): Named {
    return this.#nodes.get(peer) ?? { name: peer === "" ? "nobody" : shortId(peer), label: "" };
  }
}

/** What a node is called. */
type Named = { name: string; label: string };

function namesOf(ring: Ring, collected: Collected | undefined): Map<string, Named> {
  const told = (collected?.overview.nodes ?? []).map(({ id, domain }): [string, Named] => [
    id,
    { name: domain || shortId(id), label: domain },
  ]);
  const seen = ring.nodes.map((node): [string, Named] => [node.id, named(node, ring.self)]);
  return new Map([...told, ...seen]);
}

function named({ id, label, role }: RingNode, self: string): Named {
  return { name: id === self ? "this page" : label || role, label };
}

/** A refusal is the service's word; what nobody answered, or a service could not, is a failure. */
function isFailure({ outcome }: Hop): boolean {
  return !/^[1-4]\d\d$/.test(outcome);
}

function createHop(): HTMLLIElement {
  const row = html("li");
  const label = html("span", "hop");
  label.append(html("span", "ends"), html("span", "asked"));
  const bar = html("span", "track");
  bar.append(html("span", "whole"), html("span", "inside"));
  row.append(label, bar, html("span", "took"));
  return row;
}

/** Puts a bar where it was within the trace; clocks of two nodes may differ, but it stays on its track. */
function place(bar: Element | undefined, start_ms: number, duration_ms: number, trace: Trace): void {
  if (!(bar instanceof HTMLElement)) return;
  const whole = Math.max(trace.duration_ms, 0.001);
  const from = Math.min(Math.max((start_ms - trace.start_ms) / whole, 0), 1);
  const length = Math.min(duration_ms / whole, 1 - from);
  bar.style.left = `${from * 100}%`;
  bar.style.width = `${length * 100}%`;
}
