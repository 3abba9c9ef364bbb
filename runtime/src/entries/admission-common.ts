export type { CertificateOptions, DnsOptions } from "../admission/methods.ts";
export { type DnsValues, Resolver, type ResolverOptions } from "../admission/resolver.ts";
export { MeshError } from "../codec/code.ts";
export type { AdmissionMethod } from "../driver/admission.ts";
export type { NodeIdentity } from "../driver/node-key.ts";
