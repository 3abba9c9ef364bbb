import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  answerFields,
  asksForWebSocket,
  checkAccepted,
  newOffer,
  offeredBy,
  requestFields,
} from "../src/websocket/handshake.ts";

/** The key of RFC 6455, 1.3, and its answer. */
const KEY = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const ASKING = [
  ["upgrade", "websocket"],
  ["sec-websocket-key", KEY],
  ["sec-websocket-version", "13"],
] as const;

/** What asks, with other fields in place of some. */
const asking = (other: Record<string, string>): [string, string][] => [
  ...ASKING.filter(([name]) => other[name] === undefined).map(([name, value]): [string, string] => [
    name,
    value,
  ]),
  ...Object.entries(other),
];

describe("a handshake", () => {
  test("answers the key of RFC 6455, and names the subprotocol that was chosen", async () => {
    const offered = offeredBy("GET", asking({ "sec-websocket-protocol": "one, two" }));
    assert.deepEqual(offered, { key: KEY, protocols: ["one", "two"] });
    if (offered === undefined) return;
    assert.deepEqual(await answerFields(offered, ""), [["sec-websocket-accept", ACCEPT]]);
    const fields = await answerFields(offered, "two");
    assert.equal(
      await checkAccepted(offered, new Headers(fields.map(([name, value]) => [name, value]))),
      "two",
    );
  });

  test("has a key of its own each time", () => {
    const [one, other] = [newOffer([]), newOffer([])];
    assert.notEqual(one.key, other.key);
    assert.deepEqual(offeredBy("GET", requestFields(one)), one);
    const chosen = newOffer(["one", "two"]);
    assert.deepEqual(offeredBy("GET", requestFields(chosen)), chosen);
  });

  test("is asked for by GET, in any case and among others", () => {
    assert.ok(asksForWebSocket("GET", "WebSocket"));
    assert.ok(asksForWebSocket("GET", "h2c, websocket"));
    for (const [method, upgrade] of [
      ["POST", "websocket"],
      ["GET", "h2c"],
      ["GET", "websockets"],
      ["GET", ""],
      ["GET", null],
    ] as const) {
      assert.ok(!asksForWebSocket(method, upgrade), `${method} ${upgrade}`);
    }
  });

  test("is none without a sound key, or in another version", () => {
    for (const other of [
      { "sec-websocket-key": "" },
      { "sec-websocket-key": "c2hvcnQ=" },
      { "sec-websocket-key": `${KEY}, ${KEY}` },
      { "sec-websocket-version": "8" },
      { "sec-websocket-version": "13, 8" },
      { upgrade: "h2c" },
    ]) {
      assert.equal(offeredBy("GET", asking(other)), undefined, JSON.stringify(other));
    }
    assert.equal(offeredBy("POST", ASKING), undefined);
  });

  const wrong: [what: string, fields: Record<string, string>][] = [
    ["answers another key", {}],
    ["answers another key", { "sec-websocket-accept": KEY }],
    [
      "uses an extension that nobody offered",
      { "sec-websocket-accept": ACCEPT, "sec-websocket-extensions": "permessage-deflate" },
    ],
    [
      "chose a subprotocol that nobody offered",
      { "sec-websocket-accept": ACCEPT, "sec-websocket-protocol": "three" },
    ],
  ];
  for (const [what, fields] of wrong) {
    test(`fails when the service ${what}: ${Object.keys(fields).join(", ")}`, async () => {
      await assert.rejects(checkAccepted({ key: KEY, protocols: ["one"] }, new Headers(fields)), {
        name: "BadMessage",
        message: new RegExp(what),
      });
    });
  }
});
