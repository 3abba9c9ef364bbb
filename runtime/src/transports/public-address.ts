import { contains, ipOf, type Prefix, prefixOf, v4Of } from "./ip.ts";

/** What nobody on the internet means: private networks, this machine, documentation, multicast, metadata services. */
const PRIVATE_V4: readonly string[] = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
];
/** All but global unicast, 2000::/3, and in it Teredo, documentation, and 6to4, which leads to any IPv4 address. */
const PRIVATE_V6: readonly string[] = [
  "::/3",
  "4000::/2",
  "8000::/1",
  "2001::/32",
  "2001:db8::/32",
  "2002::/16",
];
/** NAT64: the IPv4 address at its end is what counts. */
const NAT64 = "64:ff9b::/96";

const nat64: readonly Prefix[] = /* @__PURE__ */ prefixes([NAT64]);
const notPublic: readonly Prefix[] = /* @__PURE__ */ prefixes([...PRIVATE_V4, ...PRIVATE_V6]);

function prefixes(texts: readonly string[]): Prefix[] {
  return texts.flatMap((text) => prefixOf(text) ?? []);
}

/** Whether anybody on the internet could mean this IP address: not a private network, this machine, or a metadata service. */
export function isPublic(text: string): boolean {
  const ip = ipOf(text);
  if (ip === undefined) return false;
  const meant = nat64.some((prefix) => contains(prefix, ip)) ? v4Of(ip.value) : ip;
  return !notPublic.some((prefix) => contains(prefix, meant));
}
