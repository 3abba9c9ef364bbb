import compiled from "../../core/admission.wasm";
import { Resolver, type ResolverOptions } from "../admission/resolver.ts";

export * from "./admission-common.ts";

/** Makes a resolver of certificates in DNS, over HTTPS. */
export const createResolver: (options: ResolverOptions) => Resolver = (options) =>
  new Resolver(options, {
    module: () => Promise.resolve(compiled),
    fetch: (url, init) => fetch(url, init),
    plain: undefined,
  });
