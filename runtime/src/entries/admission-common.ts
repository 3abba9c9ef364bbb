export { type DnsValues, Resolver, type ResolverOptions } from "../admission/resolver.ts";
export { MeshError } from "../codec/code.ts";
