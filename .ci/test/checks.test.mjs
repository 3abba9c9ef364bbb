import assert from "node:assert/strict";
import { test } from "node:test";

import { leftOut, withoutOptional } from "../checks/one-path.mjs";
import { cycles } from "../lib/graph.mjs";
import { allowedLicences, isAllowed } from "../lib/licence.mjs";
import { rewrite } from "../lib/merged-crates.mjs";
import { lengthProblems } from "../lib/ratchet.mjs";
import { readLib, usesOf } from "../lib/rust-modules.mjs";
import { functionLengths, importGraph, imports } from "../lib/typescript.mjs";

test("a cycle is found and a tree has none", () => {
  assert.deepEqual(
    cycles(
      new Map([
        ["a", ["b"]],
        ["b", ["c"]],
        ["c", ["b"]],
      ]),
    ),
    [["b", "c"]],
  );
  assert.deepEqual(
    cycles(
      new Map([
        ["a", ["b", "c"]],
        ["b", ["c"]],
        ["c", []],
      ]),
    ),
    [],
  );
});

test("a licence is allowed by one side of OR and both sides of AND", () => {
  const allowed = new Set(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
  for (const good of [
    "MIT",
    "GPL-3.0 OR MIT",
    "MIT/Apache-2.0",
    "(GPL-3.0 OR MIT) AND ISC",
    "Apache-2.0 WITH LLVM-exception",
  ]) {
    assert.ok(isAllowed(good, allowed), good);
  }
  for (const bad of ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "MIT ISC", "MIT OR", "(MIT"]) {
    assert.equal(isAllowed(bad, allowed), false, bad);
  }
  assert.deepEqual([...allowedLicences('[x]\nallow = [\n  "MIT",\n  "ISC",\n]\n')], ["MIT", "ISC"]);
});

test("a limit refuses what grows and asks for exceptions to follow what shrinks", () => {
  const lengths = new Map([
    ["short", 5],
    ["long", 12],
    ["grown", 15],
    ["shrunk", 13],
    ["cured", 9],
    ["known", 11],
  ]);
  const problems = lengthProblems(lengths, 10, { grown: 14, shrunk: 14, cured: 14, known: 11, gone: 11 });
  assert.deepEqual(
    problems.map((problem) => problem.split(" ")[0]),
    ["long", "grown", "shrunk", "cured", "gone"],
  );
});

test("modules of a crate are read from lib.rs and their uses from every path", () => {
  const lib = readLib("mod a;\npub use a::{Thing, Other};\npub mod b;\npub(crate) mod c;\nmod d {}\n");
  assert.deepEqual(lib.modules, ["a", "b", "c"]);
  const text = "use crate::{Thing, c::{self, b::X}};\nfn f() { crate::b::g(); crate::unknown(); }\n";
  const uses = usesOf({ file: "src/b/deep.rs", text }, "src/", lib);
  assert.deepEqual(
    uses.map(({ from, to, line }) => [from, to, line]),
    [
      ["b", "a", 1],
      ["b", "c", 1],
    ],
  );
  const above = usesOf({ file: "src/a.rs", text }, "src/", lib);
  assert.deepEqual(
    above.map(({ to, line }) => [to, line]),
    [
      ["c", 1],
      ["b", 2],
    ],
  );
});

test("functions are measured without comments and empty lines", () => {
  const text = [
    "export function f(a: number): number {",
    "  // why",
    "",
    "  const b = () => {",
    "    return a;",
    "  };",
    "  /* what",
    "   * else */",
    "  return b();",
    "}",
    'describe("list", () => {',
    '  test("one", () => {',
    "    f(1);",
    "  });",
    "});",
  ].join("\n");
  assert.deepEqual(functionLengths({ file: "x.ts", text }), [
    ["x.ts:f", 4],
    ["x.ts:b", 1],
    ["x.ts:(module)", 1],
  ]);
});

test("imports are found in every form and resolved against their file", () => {
  const text =
    'import a from "./a.ts";\nimport type { B } from "../b.ts";\nexport * from "./c.ts";\nawait import("./d.ts");\nimport "e";\n';
  assert.deepEqual(imports({ file: "x/y.ts", text }), ["./a.ts", "../b.ts", "./c.ts", "./d.ts", "e"]);
  const graph = importGraph([
    { file: "x/y.ts", text },
    { file: "b.ts", text: "" },
    { file: "x/a.ts", text: "" },
  ]);
  assert.deepEqual(graph.get("x/y.ts"), ["x/a.ts", "b.ts"]);
});

test("paths of a crate lead to the same in the crate that it is merged into", () => {
  const modules = ["selfsame_abi", "selfsame_core"];
  const source =
    "use crate::ring;\nuse selfsame_core::{Node, ring};\nselfsame_abi::exports! {}\nfn f(at: ring::At) {}\n";
  const merged =
    "use crate::selfsame_abi::ring;\nuse crate::selfsame_core::{Node, ring};\ncrate::exports! {}\nfn f(at: ring::At) {}\n";
  assert.equal(rewrite(source, "selfsame_abi", modules), merged);
  assert.equal(rewrite("$crate::Table::new()", "selfsame_abi", modules), "crate::selfsame_abi::Table::new()");
});

test("a feature is left out that no default and no other crate chooses", () => {
  const dependency = { req: "*", target: null, uses_default_features: true };
  const program = {
    name: "program",
    dependencies: [
      { ...dependency, name: "library", kind: null, features: ["chosen"] },
      { ...dependency, name: "library", kind: "dev", features: ["tests"] },
    ],
    features: {
      default: ["all"],
      all: ["one", "dep:other", "library/implied"],
      one: [],
      test: ["library/tests"],
    },
  };
  const library = {
    name: "library",
    dependencies: [],
    features: { chosen: ["more"], more: [], implied: [], tests: [] },
  };
  assert.deepEqual(leftOut([program, library]), ["test", "tests"]);
});

test("a module is optional if a feature declares it", () => {
  const files = [
    { file: "a/src/lib.rs", text: 'mod a;\n\n#[cfg(feature = "tests")]\npub mod suite;\n\nmod suites;\n' },
    ...["a/src/suite.rs", "a/src/suite/one.rs", "a/src/suites.rs"].map((file) => ({ file, text: "" })),
  ];
  const names = (/** @type {string[]} */ features) =>
    withoutOptional(files, features).map(({ file }) => file);
  assert.deepEqual(names(["tests"]), ["a/src/lib.rs", "a/src/suites.rs"]);
  assert.equal(names(["other"]).length, 4);
});
