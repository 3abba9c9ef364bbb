import { getServers } from "node:dns";
import {
  type AdmissionPlatform,
  type CertificateOptions,
  certificateMethod,
  type DnsOptions,
  dnsMethod,
} from "../admission/methods.ts";
import { askOverUdp } from "../admission/plain.ts";
import { Resolver, type ResolverOptions, type ResolverPlatform } from "../admission/resolver.ts";
import type { AdmissionMethod } from "../driver/admission.ts";
import { compiledOnce } from "../driver/compiled-once.ts";
import { type NodeIdentity, nodeKeyOf } from "../driver/node-key.ts";
import { checkedFetch } from "../transports/checked-fetch.ts";
import { deno } from "../transports/deno.ts";

export * from "./admission-common.ts";

const resolver: ResolverPlatform = {
  module: /* @__PURE__ */ load("admission.wasm"),
  // Whoever configures a resolver means it, wherever it is.
  fetch: /* @__PURE__ */ checkedFetch({ allowPrivate: true }),
  plain: { systemServers: getServers, ask: askOverUdp },
};
// Apart, so that a bundle that only looks names up holds no core.
const platform: AdmissionPlatform = {
  core: /* @__PURE__ */ load("core-closed.wasm"),
  resolver,
};

/** Admits a node by a certificate that it is given; `mesh.renewCertificate` takes the next one. */
export const certificate: (options: CertificateOptions) => AdmissionMethod = (options) =>
  certificateMethod(options, platform);

/** Admits a node by the certificates that it finds in the DNS, now and before each expires. */
export const dns: (options: DnsOptions) => AdmissionMethod = (options) => dnsMethod(options, platform);

/** Returns the public key of a node in a network, 64 hex digits, which the authority signs. */
export const nodeKey: (identity: NodeIdentity) => Promise<string> = async (identity) =>
  nodeKeyOf(identity, await platform.core());

/** Makes a resolver of certificates in DNS. */
export const createResolver: (options?: ResolverOptions) => Resolver = (options = {}) =>
  new Resolver(options, resolver);

function load(file: string): () => Promise<WebAssembly.Module> {
  const url = new URL(`../../core/${file}`, import.meta.url);
  return compiledOnce(() =>
    deno()
      .readFile(url)
      .then((bytes) => WebAssembly.compile(bytes)),
  );
}
