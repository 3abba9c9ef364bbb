import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Membership } from "selfsame/codec";

import { admissionText, certificateText, validityOf } from "./membership.ts";

const HOUR_MS = 3_600_000;
const certificate = { since_ms: 24 * HOUR_MS, until_ms: 48 * HOUR_MS };
const membership: Membership = {
  authority: "ab".repeat(32),
  certificate,
  revocations: { serial: 17, revoked: 2 },
  neighbours: [{ id: "11".repeat(32), certificate }],
};

describe("what the page says of admission", () => {
  it("is that an open network is open", () => {
    assert.equal(admissionText(null, 0), "Open: anybody may be in this network.");
    assert.equal(validityOf(null, "11".repeat(32)), undefined);
  });

  it("names authority, certificate and revocations of a closed one", () => {
    const expected =
      "Closed: certificates of abababababababab. This page's is 3 h old, expires in 21 h. List 17 revokes 2 keys.";
    assert.equal(admissionText(membership, 27 * HOUR_MS), expected);
    const none = { ...membership, revocations: { serial: 0, revoked: 0 } };
    assert.match(admissionText(none, 27 * HOUR_MS), /No key is revoked\.$/);
    assert.equal(validityOf(membership, "11".repeat(32)), certificate);
    assert.equal(validityOf(membership, "12".repeat(32)), undefined);
  });

  it("tells certificates that do not count yet or any more", () => {
    assert.equal(certificateText(certificate, 24 * HOUR_MS - 2000), "counts in 2 s, expires in 1 d");
    assert.equal(certificateText(certificate, 48 * HOUR_MS), "1 d old, expired 0 ms ago");
  });
});
