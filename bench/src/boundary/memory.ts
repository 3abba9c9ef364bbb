import { Instance } from "./instance.ts";
import { configuration, idOf, Network } from "./network.ts";

/** Virtual time that the nodes get to join and settle. */
const SETTLE_MS = 120_000;

/** Bytes of memory of one instance in which `count` nodes were created, joined one ring and settled. */
export function memoryOfNodes(module: WebAssembly.Module, count: number): number {
  let now_ms = Date.now();
  const network = new Network(() => now_ms);
  const instance = new Instance(module);
  const pending: number[] = [];
  const bootstraps: string[] = [];
  for (let number = 1; number <= count; number += 1) {
    const member = network.add(instance, configuration(number, { bootstraps: [...bootstraps] }));
    if (number === 1) bootstraps.push(`${member.address}#${idOf(network, member)}`);
    const tag = network.nextTag();
    member.node.push({ type: "Join", tag });
    pending.push(tag);
    network.pump();
  }
  const end_ms = now_ms + SETTLE_MS;
  while (now_ms < end_ms) {
    const wake_ms = Math.min(...network.members.map((member) => member.wake_ms));
    now_ms = Math.min(end_ms, Math.max(now_ms + 1, wake_ms));
    network.wake();
  }
  const joined = network.members.filter((member, index) => member.replies.has(pending[index] ?? 0));
  if (joined.length < count) throw network.fault(`only ${joined.length} of ${count} nodes joined`);
  return instance.memorySize;
}
