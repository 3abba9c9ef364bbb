import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { readAdmission } from "./admission.ts";

describe("the arguments of the main job", () => {
  it("name how the network admits its nodes", () => {
    assert.equal(readAdmission([]), "open");
    for (const args of [["--admission", "dns"], ["--admission=dns"]])
      assert.equal(readAdmission(args), "dns");
    assert.equal(readAdmission(["--admission", "open"]), "open");
  });

  it("say what to write when they are wrong", () => {
    const wrong = [["--admission"], ["--admission="], ["--admission", "DNS"], ["dns"], ["--help"]];
    for (const args of [...wrong, ["--admission", "dns", "open"], ["--admission", "toString"]]) {
      const text = /: write npm start -- --admission open or npm start -- --admission dns$/;
      assert.throws(() => readAdmission(args), text, args.join(" "));
    }
  });
});
