/** What is said on a WebSocket in these tests, by those who open one and by those who accept it, in every runtime. */

/** A socket of any platform. */
export interface Socket {
  binaryType: string;
  readonly protocol: string | null;
  send(data: string | ArrayBuffer | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(
    type: "close",
    listener: (event: { readonly code: number; readonly reason: string }) => void,
  ): void;
  addEventListener(type: "open" | "error", listener: (event: unknown) => void): void;
}

/** The subprotocol that services choose. */
export const PROTOCOL = "talk.2";
/** More than the window of a stream, so that credit has to come back, and more than one chunk of anything. */
const LARGE = 1024 * 1024 + 1;

/** Sends back what arrives, closes when it is told to, and tells how it was closed. */
export function accept(socket: Socket, tell: (ended: string) => void): void {
  socket.binaryType = "arraybuffer";
  socket.addEventListener("message", ({ data }) => {
    if (data === "close") socket.close(4002, "told to");
    else socket.send(data as string | ArrayBuffer);
  });
  socket.addEventListener("close", ({ code, reason }) => tell(`${code} ${reason}`));
}

/** What came of a talk. */
export type Talk = Readonly<Record<string, unknown>>;

/** What comes of one when all is well. */
export const EXPECTED: Talk = {
  protocol: PROTOCOL,
  text: "text \u20ac",
  empty: 0,
  bytes: "1,2,3",
  large: `${LARGE} alike`,
  inOrder: "0,1,2,3,4,5,6,7,8,9",
  closedByService: "4002 told to",
  closedByCaller: "3001 enough",
};

/** Opens sockets and says what came of it. */
export async function talk(open: (protocols: string[]) => Socket): Promise<Talk> {
  const socket = open(["talk.1", PROTOCOL]);
  socket.binaryType = "arraybuffer";
  const next = messagesOf(socket);
  await opened(socket);
  const { protocol } = socket;
  socket.send("text \u20ac");
  const text = await next();
  socket.send(new ArrayBuffer(0));
  const empty = ((await next()) as ArrayBuffer).byteLength;
  socket.send(Uint8Array.of(1, 2, 3));
  const bytes = new Uint8Array((await next()) as ArrayBuffer).join();
  const sent = Uint8Array.from({ length: LARGE }, (_, index) => (index * 7) & 255);
  socket.send(sent);
  const received = new Uint8Array((await next()) as ArrayBuffer);
  const isAlike = received.length === LARGE && received.every((byte, index) => byte === sent[index]);
  const numbers: unknown[] = [];
  for (let number = 0; number < 10; number++) socket.send(`${number}`);
  for (let number = 0; number < 10; number++) numbers.push(await next());
  const end = closed(socket);
  socket.send("close");
  const closedByService = await end;
  return {
    protocol,
    text,
    empty,
    bytes,
    large: `${received.length} ${isAlike ? "alike" : "different"}`,
    inOrder: numbers.join(),
    closedByService,
    closedByCaller: await closeByCaller(open([PROTOCOL])),
  };
}

async function closeByCaller(socket: Socket): Promise<string> {
  await opened(socket);
  const end = closed(socket);
  socket.close(3001, "enough");
  return end;
}

function opened(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.addEventListener("open", () => resolve());
    socket.addEventListener("error", (event) => reject((event as { error?: unknown }).error));
  });
}

function closed(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.addEventListener("close", ({ code, reason }) => resolve(`${code} ${reason}`));
  });
}

/** The messages of a socket, one after the other. */
function messagesOf(socket: Socket): () => Promise<unknown> {
  const arrived: unknown[] = [];
  let wake: () => void = () => undefined;
  socket.addEventListener("message", ({ data }) => {
    arrived.push(data);
    wake();
  });
  return async () => {
    while (arrived.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return arrived.shift();
  };
}
