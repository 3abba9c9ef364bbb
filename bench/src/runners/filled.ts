import {
  CapsuleModule,
  type CapsuleOptions,
  capsuleModule,
  openCapsule,
  type Replica,
} from "selfsame/capsule";

const VALUE_BYTES = 16;
const SEED_BYTES = 32;

/** Stores a new capsule of `count` small records at a replica, each signed when it is written; returns the capsule's name. */
export async function fill(
  replica: Replica,
  storage: CapsuleOptions["storage"],
  count: number,
): Promise<string> {
  const module = await CapsuleModule.instantiate(await capsuleModule());
  const random = crypto.getRandomValues(new Uint8Array(SEED_BYTES));
  const seed = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const metadata = module.signMetadata({ seed, sealed: true });
  const capsule = await openCapsule({ servers: [replica], metadata, seed, storage });
  await capsule.create();
  const encoder = new TextEncoder();
  for (let index = 0; index < count; index += 1) {
    await capsule.append([encoder.encode(`${index}`.padStart(VALUE_BYTES, "0"))]);
  }
  await capsule.close();
  return capsule.name;
}
