/** Every test vector that passes natively passes in WebAssembly too. Run: `node --test guest/sodium/tests/wasm/vectors.test.mjs`. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { before, describe, it } from "node:test";

import { compileTestModule, instantiate, readReport, runFile } from "./module.mjs";

const folder = new URL("../vectors/", import.meta.url);

/** Cases in the files that do not say themselves how many they hold. */
const CASES = new Map([
  ["blake3/test_vectors.json", 35],
  ["rfc/asymmetric_Ed25519_sign.input", 1024],
  ["rfc/asymmetric_X25519_rfc7748.txt", 3],
  ["rfc/ciphers_ChaCha20Poly1305_boringssl.txt", 66],
  ["rfc/ciphers_ChaCha20Poly1305_openssl.txt", 5],
  ["xwing/test-vectors.json", 3],
]);

const files = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .flatMap((entry) => readdirSync(new URL(`${entry.name}/`, folder)).map((name) => `${entry.name}/${name}`))
  .filter((name) => !name.includes("/LICENSE"));

/** @type {WebAssembly.Module} */
let module;
before(async () => {
  module = await compileTestModule();
});

describe("test vectors in WebAssembly", () => {
  assert.equal(files.length, 13);
  for (const file of files) {
    it(file, () => {
      const contents = readFileSync(new URL(file, folder), "utf8");
      const { passed, failures } = runFile(instantiate(module), file, contents);
      assert.deepEqual(failures, []);
      assert.equal(passed, CASES.get(file) ?? JSON.parse(contents).numberOfTests);
    });
  }
});

it("what must be refused is refused", async (test) => {
  const refuse = (/** @type {number} */ index) => {
    const wasm = instantiate(module);
    try {
      const count = wasm.refuse(index);
      return { name: readReport(wasm), count, error: undefined };
    } catch (error) {
      return { name: readReport(wasm), count: 0, error };
    }
  };
  const { count } = refuse(0);
  assert.equal(count, 14);
  for (let index = 0; index < count; index++) {
    const { name, error } = refuse(index);
    await test.test(name, () => assert.equal(error, undefined));
  }
});

it("our C functions compute what libsodium's compute", () => {
  instantiate(module).compare_arithmetic();
});

it("a changed expected output is noticed", () => {
  const file = "xwing/test-vectors.json";
  const contents = readFileSync(new URL(file, folder), "utf8").replace('"ss": "d', '"ss": "e');
  const { passed, failures } = runFile(instantiate(module), file, contents);
  assert.equal(passed, 2);
  assert.deepEqual(failures, ["case 0: another secret than expected"]);
});

it("an unknown file is an error", () => {
  assert.throws(() => runFile(instantiate(module), "no/such.json", "{}"), /no test knows this file/);
});

it("the module needs nothing from outside", () => {
  assert.deepEqual(WebAssembly.Module.imports(module), []);
});

it("libsodium's own random source stops the module", () => {
  const wasm = instantiate(module);
  assert.throws(() => wasm.ask_for_randomness(), WebAssembly.RuntimeError);
});
