import { getServers } from "node:dns";
import { readFile } from "node:fs/promises";
import { askOverUdp } from "../admission/plain.ts";
import { Resolver, type ResolverOptions } from "../admission/resolver.ts";
import { compiledOnce } from "../driver/compiled-once.ts";
import { checkedFetch } from "../transports/checked-fetch.ts";

export * from "./admission-common.ts";

const module = /* @__PURE__ */ compiledOnce(() =>
  readFile(new URL("../../core/admission.wasm", import.meta.url)).then((bytes) => WebAssembly.compile(bytes)),
);

/** Makes a resolver of certificates in DNS. */
export const createResolver: (options?: ResolverOptions) => Resolver = (options = {}) =>
  new Resolver(options, {
    module,
    // Whoever configures a resolver means it, wherever it is.
    fetch: checkedFetch({ allowPrivate: true }),
    plain: { systemServers: getServers, ask: askOverUdp },
  });
