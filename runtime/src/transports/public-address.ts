import { BlockList, isIPv6 } from "node:net";

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
/** Mapped and NAT64: the IPv4 address at their end is what counts. */
const EMBEDDING: readonly string[] = ["::ffff:", "64:ff9b::"];

function blocks(subnets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [network = "", length = ""] = subnet.split("/");
    list.addSubnet(network, Number(length), isIPv6(network) ? "ipv6" : "ipv4");
  }
  return list;
}

const v4: BlockList = /* @__PURE__ */ blocks(PRIVATE_V4);
const v6: BlockList = /* @__PURE__ */ blocks(PRIVATE_V6);
const embedding: BlockList = /* @__PURE__ */ blocks(EMBEDDING.map((prefix) => `${prefix}0.0.0.0/96`));
const embedded: BlockList = /* @__PURE__ */ blocks(
  EMBEDDING.flatMap((prefix) =>
    PRIVATE_V4.map((subnet) => {
      const [network = "", length = ""] = subnet.split("/");
      return `${prefix}${network}/${96 + Number(length)}`;
    }),
  ),
);

/** Whether anybody on the internet could mean this IP address: not a private network, this machine, or a metadata service. */
export function isPublic(ip: string): boolean {
  if (!isIPv6(ip)) return !v4.check(ip, "ipv4");
  return !(embedding.check(ip, "ipv6") ? embedded : v6).check(ip, "ipv6");
}
