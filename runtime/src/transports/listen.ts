import { MeshError } from "../codec/code.ts";

/** Where peers are accepted: a port for WebSocket and POST, the same with an address, or a URL `ws://`, `tcp://` or `udp://`. */
export type Listen = number | string | { readonly port: number; readonly hostname?: string | undefined };

/** A port of this machine. */
export interface ListenPlace {
  /** The port; any free one if 0. */
  readonly port: number;
  /** Address to listen at; all unless given. */
  readonly hostname?: string | undefined;
}

/** A place and what is spoken there. */
export interface Listener extends ListenPlace {
  /** Bare TCP, connections over UDP, or HTTP with WebSockets and POSTs. */
  readonly speaks: "http" | "tcp" | "udp";
}

const SPEAKS: Readonly<Record<string, Listener["speaks"]>> = {
  "tcp:": "tcp",
  "udp:": "udp",
  "ws:": "http",
  "http:": "http",
};

/** The places of the option `listen`; the error names the one that is wrong. */
export function listenersOf(listen: Listen | readonly Listen[] | undefined): Listener[] {
  if (listen === undefined) return [];
  const all = Array.isArray(listen) ? (listen as readonly Listen[]) : [listen as Listen];
  return all.map(listenerOf);
}

/** Opens the places of the option `listen`, each with what speaks there; the port of the first. */
export async function openAll(
  listen: Listen | readonly Listen[],
  open: Readonly<Record<Listener["speaks"], (at: ListenPlace) => Promise<number> | number>>,
): Promise<number | undefined> {
  let first: number | undefined;
  for (const { speaks, ...at } of listenersOf(listen)) {
    const port = await open[speaks](at);
    first ??= port;
  }
  return first;
}

function listenerOf(listen: Listen): Listener {
  if (typeof listen === "number") return { speaks: "http", port: listen };
  if (typeof listen !== "string") return { speaks: "http", ...listen };
  const url = URL.canParse(listen) ? new URL(listen) : undefined;
  const speaks = url && SPEAKS[url.protocol];
  if (url === undefined || speaks === undefined || !/:\d+\/?$/.test(listen)) {
    throw new MeshError(
      "BadConfig",
      `listen ${listen} is no URL such as ws://0.0.0.0:7000, tcp://0.0.0.0:7001 or udp://0.0.0.0:7002`,
    );
  }
  // A URL does not tell the usual port of its scheme.
  const port = Number(url.port || 80);
  return { speaks, port, hostname: url.hostname.replace(/^\[|\]$/g, "") };
}
