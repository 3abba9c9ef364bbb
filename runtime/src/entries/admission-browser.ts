import { Resolver, type ResolverOptions } from "../admission/resolver.ts";
import { admissionBase64 } from "../admission-base64.js";
import { compiledOnce } from "../driver/compiled-once.ts";

export * from "./admission-common.ts";

const module = /* @__PURE__ */ compiledOnce(() =>
  WebAssembly.compile(Uint8Array.from(atob(admissionBase64), (character) => character.charCodeAt(0))),
);

/** Makes a resolver of certificates in DNS, over HTTPS. */
export const createResolver: (options: ResolverOptions) => Resolver = (options) =>
  new Resolver(options, { module, fetch: (url, init) => fetch(url, init), plain: undefined });
