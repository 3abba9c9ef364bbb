import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fromBase64Url, toHex } from "selfsame/codec";

import { AdmissionModule } from "../../runtime/src/admission/module.ts";
import { parseNetwork } from "../../runtime/src/driver/network-name.ts";
import { Authority, type Terms } from "../../runtime/test/authority.ts";
import { ROOT } from "../lib/run.ts";
import { type RecordedNetwork, START_MS } from "./network.ts";
import { type Recording, record, SLOTS } from "./record.ts";

const NONE = new Uint8Array();
const LONGER_MS = 7_200_000;

/** Records the same life in a closed network; then a member renews its certificate, and the leaf is revoked. */
export async function recordClosed(module: WebAssembly.Module): Promise<Recording> {
  const authority = await Authority.of(0x77, "conformance", () => START_MS);
  const { name: network, authority: issuer = NONE } = parseNetwork(authority.network);
  const wasm = new Uint8Array(readFileSync(join(ROOT, "runtime/core/admission.wasm")));
  const admission = new AdmissionModule(() => WebAssembly.compile(wasm));
  const certify = (key: Uint8Array, address: string, more?: Terms): Uint8Array<ArrayBuffer> => {
    const text = authority.certify(toHex(key), { address, ...more });
    return fromBase64Url(text, "a certificate");
  };
  return record(module, {
    name: authority.network,
    admit: async (key, _, address) => {
      const certificate = certify(key, address);
      const { id } = await admission.certified({ network, authority: issuer, key }, certificate);
      return { id, admission: { mode: "dns", authority: issuer, certificate, confirms: false } };
    },
    amend: (recorded, members, story) => {
      const [first, , leaf] = members;
      renew(recorded, certify(first?.key ?? NONE, first?.address ?? "", { until_ms: LONGER_MS }), story);
      revoke(recorded, fromBase64Url(authority.revoke([toHex(leaf?.key ?? NONE)], 1), "a list"), story);
    },
  });
}

function renew(network: RecordedNetwork, certificate: Uint8Array, story: string[]): void {
  network.feed(SLOTS.first, [{ type: "Certify", tag: 20, certificate }]);
  network.reply(SLOTS.first, 20);
  story.push("renewed");
}

function revoke(network: RecordedNetwork, list: Uint8Array, story: string[]): void {
  network.take(SLOTS.leaf, "Event");
  network.feed(SLOTS.first, [{ type: "Revoke", tag: 21, list }]);
  network.run(1000);
  network.reply(SLOTS.first, 21);
  const parted = network.take(SLOTS.leaf, "Event").filter(({ event }) => event === "PeerDisconnected");
  if (parted.length > 0) story.push("revoked");
}
