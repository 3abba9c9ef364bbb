import {
  type AdmissionPlatform,
  type CertificateOptions,
  certificateMethod,
  type DnsOptions,
  dnsMethod,
} from "../admission/methods.ts";
import { Resolver, type ResolverOptions, type ResolverPlatform } from "../admission/resolver.ts";
import { admissionBase64 } from "../admission-base64.js";
import { closedCoreBase64 } from "../core-closed-base64.js";
import type { AdmissionMethod } from "../driver/admission.ts";
import { compiledOnce } from "../driver/compiled-once.ts";
import { type NodeIdentity, nodeKeyOf } from "../driver/node-key.ts";

export * from "./admission-common.ts";

const resolver: ResolverPlatform = {
  module: /* @__PURE__ */ compiledOnce(() => compile(admissionBase64)),
  fetch: (url, init) => fetch(url, init),
  plain: undefined,
};
// Apart, so that a bundle that only looks names up holds no core.
const platform: AdmissionPlatform = {
  core: /* @__PURE__ */ compiledOnce(() => compile(closedCoreBase64)),
  resolver,
};

/** Admits a node by a certificate that it is given; `mesh.renewCertificate` takes the next one. */
export const certificate: (options: CertificateOptions) => AdmissionMethod = (options) =>
  certificateMethod(options, platform);

/** Admits a node by the certificates that it finds in the DNS over HTTPS, now and before each expires. */
export const dns: (options: DnsOptions) => AdmissionMethod = (options) => dnsMethod(options, platform);

/** Returns the public key of a node in a network, 64 hex digits, which the authority signs. */
export const nodeKey: (identity: NodeIdentity) => Promise<string> = async (identity) =>
  nodeKeyOf(identity, await platform.core());

/** Makes a resolver of certificates in DNS, over HTTPS. */
export const createResolver: (options: ResolverOptions) => Resolver = (options) =>
  new Resolver(options, resolver);

function compile(base64: string): Promise<WebAssembly.Module> {
  return WebAssembly.compile(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)));
}
