import { ENDPOINT_BYTES } from "../../runtime/src/codec/rpc.ts";

const PORT = 9;

/** Returns the endpoint of a numbered party: port 9 of 192.0.x.y, mapped into IPv6. */
export function endpointOf(number: number): Uint8Array<ArrayBuffer> {
  const endpoint = new Uint8Array(ENDPOINT_BYTES);
  endpoint.set([0xff, 0xff, 192, 0, number >> 8, number & 0xff, 0, PORT], 10);
  return endpoint;
}

/** Returns the number of the party at an endpoint. */
export function partyAt(endpoint: Uint8Array): number {
  const [high = 0, low = 0] = endpoint.subarray(14);
  return high * 256 + low;
}
