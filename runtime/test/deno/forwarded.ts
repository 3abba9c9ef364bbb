// Run by test/deno.test.ts under Deno: prints from where the paths come that a peer with a forwarded header opens at a member.
import { connect } from "node:net";
import { join, memory } from "../../src/entries/deno.ts";

const [port = "0", ...trustedProxies] = process.argv.slice(2);
const mesh = await join({
  network: "test",
  storage: memory(),
  address: `ws://127.0.0.1:${port}/.mesh`,
  listen: { port: Number(port), hostname: "127.0.0.1" },
  allowPrivate: true,
  trustedProxies,
});

/** Sends a request and resolves with the address of the path that it opens. */
function remoteOf(method: string, fields: readonly string[]): Promise<string> {
  const head = [
    `${method} /.mesh HTTP/1.1`,
    "host: node",
    "x-forwarded-for: 192.0.2.9, 198.51.100.1",
    ...fields,
  ];
  return new Promise((resolve) => {
    const { paths } = mesh;
    const open = paths.open.bind(paths);
    paths.open = (link, opened) => {
      resolve(opened.remote);
      return open(link, opened);
    };
    connect(Number(port), "127.0.0.1").write(`${head.join("\r\n")}\r\n\r\n`);
  });
}

const bySocket = await remoteOf("GET", [
  "connection: upgrade",
  "upgrade: websocket",
  "sec-websocket-version: 13",
  "sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==",
  "sec-websocket-protocol: selfsame.1",
]);
const byPost = await remoteOf("POST", [
  "content-type: application/selfsame",
  `selfsame-path: ${"0".repeat(32)}`,
  "content-length: 0",
]);
console.log(JSON.stringify([bySocket, byPost]));
process.exit();
