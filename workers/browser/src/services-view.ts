import type { ServiceLoad } from "selfsame-apps/observability";

import type { Collected } from "./collected.ts";
import { html, reconcile, setText, svg } from "./dom.ts";
import { platformClass, type Replica, type Ring, type Service, shortId } from "./model.ts";
import { type Part, partsOf } from "./split.ts";

/** Seconds over which a rate is taken: short enough to be live, long enough not to flicker. */
const RATE_S = 10;
/** Colours of versions, in their order; a service has seldom more. */
const VERSION_COLOURS = 4;
/** A smaller part of the bar has no room for the version's name; its colour is that of the replicas below. */
const MIN_NAMED = 0.25;

/** Shows the services of the ring: who serves them, how requests are split, and how many there are. */
export function renderServices(list: HTMLElement, ring: Ring, collected: Collected | undefined): void {
  const loads = new Map(collected?.overview.services.map((load) => [load.name, load]));
  reconcile(
    list,
    ring.services,
    ({ name }) => name,
    createService,
    (item, service) => updateService(item, service, ring, loads.get(service.name)),
  );
}

function createService(): HTMLLIElement {
  const item = html("li", "offer");
  const head = html("div", "offer-head");
  head.append(html("h3"), html("span", "load"), html("span", "rate"));
  const line = svg("svg", { class: "sparkline", viewBox: "0 0 60 16", preserveAspectRatio: "none" });
  line.setAttribute("aria-hidden", "true");
  line.append(svg("polyline"));
  head.append(line);
  item.append(head, html("div", "split"), html("ul", "replicas"));
  return item;
}

function updateService(
  item: HTMLLIElement,
  service: Service,
  ring: Ring,
  load: ServiceLoad | undefined,
): void {
  const [head, split, replicas] = item.children;
  if (!(head instanceof HTMLElement && split instanceof HTMLElement && replicas instanceof HTMLElement))
    return;
  updateHead(head, service.name, load);
  const requests = new Map(load?.providers.map((provider) => [provider.peer, provider.requests]));
  const parts = partsOf(service.replicas, requests);
  updateSplit(split, parts.length > 1 ? parts : []);
  const versions = parts.map(({ version }) => version);
  reconcile(
    replicas,
    service.replicas,
    ({ peer }) => peer,
    createReplica,
    (chip, replica) => updateReplica(chip, replica, ring.self, versions),
  );
}

function updateHead(head: HTMLElement, name: string, load: ServiceLoad | undefined): void {
  const [title, times, rate, line] = head.children;
  if (!title || !times || !rate || !line) return;
  const perSecond = load?.perSecond ?? [];
  setText(title, name);
  setText(times, loadText(load));
  setText(rate, load === undefined ? "" : `${rateOf(perSecond).toFixed(1)}/s`);
  const most = Math.max(1, ...perSecond);
  const points = perSecond.map((count, index) => `${index},${15 - (14 * count) / most}`);
  line.firstElementChild?.setAttribute("points", points.join(" "));
  line.classList.toggle(
    "idle",
    perSecond.every((count) => count === 0),
  );
}

function loadText(load: ServiceLoad | undefined): string {
  if (load === undefined || load.p50_ms === null) return "";
  const failed = load.errors === 0 ? "" : `, ${load.errors} of ${load.requests} failed`;
  return `half within ${milliseconds(load.p50_ms)}${failed}`;
}

/** Requests in a second, of the whole seconds that have passed. */
function rateOf(perSecond: readonly number[]): number {
  const recent = perSecond.slice(-RATE_S - 1, -1);
  return recent.reduce((sum, count) => sum + count, 0) / RATE_S;
}

function updateSplit(split: HTMLElement, parts: readonly Part[]): void {
  const rows =
    parts.length === 0 ? [] : [rowOf("asked for", parts, share), rowOf("measured", parts, measured)];
  reconcile(split, rows, ({ name }) => name, createRow, updateRow);
}

type Row = { name: string; segments: { version: string; share: number | undefined }[] };

const share = (part: Part): number | undefined => part.share;
const measured = (part: Part): number | undefined => part.measured;

function rowOf(name: string, parts: readonly Part[], of: (part: Part) => number | undefined): Row {
  return { name, segments: parts.map((part) => ({ version: part.version, share: of(part) })) };
}

function createRow({ name }: Row): HTMLDivElement {
  const row = html("div", "split-row");
  row.append(html("span", "split-name", name), html("div", "bar"), html("span", "shares"));
  return row;
}

function updateRow(row: HTMLDivElement, { segments }: Row): void {
  const [, bar, shares] = row.children;
  if (!bar || !shares) return;
  const known = segments.filter(({ share }) => share !== undefined);
  const numbers = known.map(({ share = 0 }) => (share * 100).toFixed(1).replace(/\.0$/, ""));
  setText(shares, numbers.length === 0 ? "" : `${numbers.join(" : ")} %`);
  bar.classList.toggle("empty", known.length === 0);
  reconcile(
    bar,
    known.map((segment) => ({ ...segment, index: segments.indexOf(segment) })),
    ({ version }) => version,
    () => html("span", "segment"),
    (segment, { version, share = 0, index }) => {
      segment.className = `segment ${versionClass(index)}`;
      segment.style.flexGrow = String(share);
      setText(segment, share < MIN_NAMED ? "" : versionName(version));
      segment.title = `${versionName(version)}: ${(share * 100).toFixed(1)} %`;
    },
  );
}

function createReplica(): HTMLLIElement {
  const chip = html("li");
  const mark = html("span", "platform");
  mark.ariaHidden = "true";
  chip.append(mark, html("span", "where"), html("span", "id"), html("span", "version"));
  return chip;
}

function updateReplica(
  chip: HTMLLIElement,
  replica: Replica,
  self: string,
  versions: readonly string[],
): void {
  const { peer, label, version, ejected, latency_ms } = replica;
  chip.className = `replica ${platformClass(label)} ${peer === self ? "self" : ""} ${ejected ? "ejected" : ""}`;
  const [, where, id, told] = chip.children;
  if (!where || !id || !told) return;
  setText(where, peer === self ? "this page" : label || "unknown");
  setText(id, shortId(peer));
  const isTold = version !== "" || versions.length > 1;
  setText(told, isTold ? versionName(version) : "");
  told.className = `version ${isTold && versions.length > 1 ? versionClass(versions.indexOf(version)) : ""}`;
  const times =
    latency_ms === null ? "" : `; its answers to this page begin after ${milliseconds(latency_ms)}`;
  chip.title = `${peer}${ejected ? "; avoided, since it failed" : ""}${times}`;
}

function versionName(version: string): string {
  return version === "" ? "no version" : `v${version}`;
}

function versionClass(index: number): string {
  return `version-${index % VERSION_COLOURS}`;
}

/** A time for people. */
export function milliseconds(ms: number): string {
  return ms < 10
    ? `${ms.toFixed(1)} ms`
    : ms < 10_000
      ? `${ms.toFixed(0)} ms`
      : `${(ms / 1000).toFixed(1)} s`;
}
