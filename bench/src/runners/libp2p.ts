import { generateKeyPair } from "@libp2p/crypto/keys";
import type { Logger, PeerId, StreamMessageEvent, Upgrader } from "@libp2p/interface";
import { noise } from "@libp2p/noise";
import { peerIdFromPrivateKey } from "@libp2p/peer-id";
import { AbstractMultiaddrConnection } from "@libp2p/utils";
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

async function connect(initiator: Peer, responder: Peer) {
  const [left, right] = Wire.pair();
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
    for (let done = 0; done < count; done += 1) await connect(initiator, responder);
  };
}

/** Messages of js-libp2p noise, each sealed by one side and opened by the other before the next one. */
export async function messages(length: number): Promise<Task> {
  const { outbound, inbound } = await connect(await peer(), await peer());
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
