import { freePort } from "selfsame-twiitr/ports";

/** Every port that a document or a help text names. */
const NAMED = [
  7000, 7001, 7002, 7003, 7004, 7010, 7117, 7118, 7300, 7301, 7302, 7303, 7304, 7305, 7306, 7400, 8000, 8080,
  8081, 8787, 9464, 15_001, 15_002,
] as const;
/** Where free ports are looked for. */
const FIRST = 9100;

/** A free port of this machine for each that the documents name. */
export async function freePorts(): Promise<ReadonlyMap<string, string>> {
  const ports = new Map<string, string>();
  const taken: number[] = [];
  for (const named of NAMED) {
    const port = await freePort(FIRST, taken);
    taken.push(port);
    ports.set(`${named}`, `${port}`);
  }
  return ports;
}
