import { MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import type { AdmissionMethod } from "../driver/admission.ts";
import { readCertificate, readRevocations } from "../driver/signed-text.ts";
import { CertificateHolder, type CertificateSource } from "./holder.ts";
import { AdmissionModule } from "./module.ts";
import { Resolver, type ResolverPlatform } from "./resolver.ts";

/** A certificate that a node is given. */
export interface CertificateOptions {
  /** The certificate: the text that `selfsame authority sign` prints, or its bytes. */
  readonly certificate: string | Uint8Array;
  /** Whom the authority admits no more: the text that `selfsame authority revoke` prints, or its bytes. */
  readonly revocations?: string | Uint8Array | undefined;
}

/** Where a node finds its certificates in the DNS. */
export interface DnsOptions {
  /** Domain of the network. */
  readonly domain: string;
  /** Name servers, `IP:PORT`, at most 3: in Node and Deno, where those of the system are asked unless any are given. */
  readonly nameServers?: readonly string[] | undefined;
  /** URL of a resolver over HTTPS (RFC 8484), such as `https://dns.example/dns-query`; browsers and Workers need one. */
  readonly dnsOverHttps?: string | undefined;
}

/** What a platform gives to whoever is admitted to closed networks. */
export interface AdmissionPlatform {
  /** What looks names up. */
  readonly resolver: ResolverPlatform;
  /** The compiled core of closed networks. */
  readonly core: () => Promise<WebAssembly.Module>;
}

/** Makes the admission of a node by a certificate that it is given. */
export function certificateMethod(options: CertificateOptions, platform: AdmissionPlatform): AdmissionMethod {
  return methodOf(givenSource(options), platform);
}

/** Makes the admission of a node by the certificates that it finds in the DNS. */
export function dnsMethod(options: DnsOptions, platform: AdmissionPlatform): AdmissionMethod {
  return methodOf(dnsSource(options, platform.resolver), platform);
}

function methodOf(source: CertificateSource, { core, resolver }: AdmissionPlatform): AdmissionMethod {
  const module = new AdmissionModule(resolver.module);
  return { core, admit: (applicant) => CertificateHolder.admit(applicant, source, module) };
}

function givenSource({ certificate, revocations }: CertificateOptions): CertificateSource {
  const given = readCertificate(certificate);
  return {
    find: () => Promise.resolve([given]),
    findNewcomer: undefined,
    renews: false,
    revocations: revocations === undefined ? undefined : readRevocations(revocations),
  };
}

function dnsSource(
  { domain, nameServers, dnsOverHttps }: DnsOptions,
  platform: ResolverPlatform,
): CertificateSource {
  if (typeof domain !== "string") throw new MeshError("BadDomain");
  const resolver = new Resolver({ url: dnsOverHttps, servers: nameServers }, platform);
  return {
    find: async ({ network, key }) => {
      const { values } = await resolver.certificates(key, domain);
      if (values.length === 0) throw noCertificate(network, toHex(key), domain);
      return values;
    },
    findNewcomer: async ({ key, source }) => {
      const { values } = await resolver.certificatesOfStranger(key, domain, source);
      return values;
    },
    renews: true,
    revocations: undefined,
  };
}

function noCertificate(network: string, key: string, domain: string): MeshError {
  const command = `selfsame authority dns sign --network ${network} --node ${key}`;
  return new MeshError(
    "NoCertificate",
    `the DNS holds no certificate under ${domain} for the key ${key}: \`${command}\` puts one there, of a member with --address`,
  );
}
