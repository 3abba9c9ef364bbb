import compiled from "../../core/admission.wasm";
import closedCore from "../../core/core-closed.wasm";
import {
  type AdmissionPlatform,
  type CertificateOptions,
  certificateMethod,
  type DnsOptions,
  dnsMethod,
} from "../admission/methods.ts";
import { Resolver, type ResolverOptions } from "../admission/resolver.ts";
import type { AdmissionMethod } from "../driver/admission.ts";
import { type NodeIdentity, nodeKeyOf } from "../driver/node-key.ts";

export * from "./admission-common.ts";

const platform: AdmissionPlatform = {
  core: () => Promise.resolve(closedCore),
  module: () => Promise.resolve(compiled),
  fetch: (url, init) => fetch(url, init),
  plain: undefined,
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
  new Resolver(options, platform);
