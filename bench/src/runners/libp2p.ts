import { generateKeyPair } from "@libp2p/crypto/keys";
import type { Logger, MultiaddrConnection, PeerId, StreamMessageEvent, Upgrader } from "@libp2p/interface";
import { noise } from "@libp2p/noise";
import { peerIdFromPrivateKey } from "@libp2p/peer-id";
import { AbstractMultiaddrConnection, multiaddrConnectionPair } from "@libp2p/utils";
import { multiaddr } from "@multiformats/multiaddr";

import type { Task } from "../boundary/tasks.ts";

/** js-libp2p formats what it logs before it throws it away: a logger that does nothing is its fastest. */
const silent: Logger = Object.assign(() => {}, {
  error: () => {},
  trace: () => {},
  enabled: false,
  newScope: () => silent,
});

/** One end of a wire in memory that delivers at once: the fastest transport that js-libp2p can have. */
class Wire extends AbstractMultiaddrConnection {
  #other: Wire | undefined;

  static pair(): [Wire, Wire] {
    const remoteAddr = multiaddr("/memory/bench");
    const left = new Wire({ direction: "outbound", log: silent, remoteAddr });
    const right = new Wire({ direction: "inbound", log: silent, remoteAddr });
    left.#other = right;
    right.#other = left;
    return [left, right];
  }

  sendData(data: Parameters<AbstractMultiaddrConnection["sendData"]>[0]) {
    this.#other?.onData(data);
    return { sentBytes: data.byteLength, canSendMore: true };
  }

  sendReset(): void {}
  sendPause(): void {}
  sendResume(): void {}
  async sendClose(): Promise<void> {}
}

/** Both ends of a connection. */
type Ends = readonly [outbound: MultiaddrConnection, inbound: MultiaddrConnection];

interface Peer {
  readonly id: PeerId;
  readonly noise: ReturnType<ReturnType<typeof noise>>;
}

async function peer(): Promise<Peer> {
  const privateKey = await generateKeyPair("Ed25519");
  const id = peerIdFromPrivateKey(privateKey);
  // With muxer negotiation skipped, noise asks the upgrader for nothing.
  const upgrader = {} as Upgrader;
  const components = { privateKey, peerId: id, upgrader, logger: { forComponent: () => silent } };
  return { id, noise: noise()(components) };
}

async function connect(initiator: Peer, responder: Peer, [left, right]: Ends) {
  const skip = { skipStreamMuxerNegotiation: true };
  const [outbound, inbound] = await Promise.all([
    initiator.noise.secureOutbound(left, { ...skip, remotePeer: responder.id }),
    responder.noise.secureInbound(right, { ...skip, remotePeer: initiator.id }),
  ]);
  return { outbound: outbound.connection, inbound: inbound.connection };
}

/** Handshakes of js-libp2p noise between two peers with lasting keys, each expecting the other's id. */
export async function handshakes(): Promise<Task> {
  const initiator = await peer();
  const responder = await peer();
  return async (count) => {
    for (let done = 0; done < count; done += 1) await connect(initiator, responder, Wire.pair());
  };
}

/**
 * Messages over the connection pair that js-libp2p itself offers for use in memory. Like its transports it delivers
 * later, so each message is awaited before the next one is sent.
 */
export async function awaitedMessages(length: number): Promise<Task> {
  const { outbound, inbound } = await connect(await peer(), await peer(), multiaddrConnectionPair());
  const payload = new Uint8Array(length).fill(7);
  let missing = 0;
  let arrived = () => {};
  inbound.addEventListener("message", (event: StreamMessageEvent) => {
    missing -= event.data.byteLength;
    if (missing === 0) arrived();
  });
  return async (count) => {
    for (let done = 0; done < count; done += 1) {
      missing = length;
      const arrival = new Promise<void>((resolve) => {
        arrived = resolve;
      });
      outbound.send(payload);
      await arrival;
    }
  };
}

/** Messages over a wire that delivers before `send` returns, as no transport of js-libp2p does: the most it can do. */
export async function synchronousMessages(length: number): Promise<Task> {
  const { outbound, inbound } = await connect(await peer(), await peer(), Wire.pair());
  const payload = new Uint8Array(length).fill(7);
  let received = 0;
  inbound.addEventListener("message", (event: StreamMessageEvent) => {
    received += event.data.byteLength;
  });
  return (count) => {
    const before = received;
    for (let done = 0; done < count; done += 1) outbound.send(payload);
    if (received - before !== count * length) throw new Error("a message did not arrive at once");
  };
}
