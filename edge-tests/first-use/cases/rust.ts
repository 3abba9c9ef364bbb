import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "../../lib/run.ts";
import { changedFile, sectionOf } from "../document.ts";
import type { Scenario } from "../scenario.ts";
import { failureOf, QUICK_START, withMember } from "./member.ts";

const PLATFORM = "rust";

/** The programs of the quick start and of the crate's page, compiled and run. */
export const rust: Scenario = async (stage) => {
  const { report } = stage;
  const newcomer = await report.check(PLATFORM, "the member of the quick start runs", () =>
    withMember(stage),
  );
  if (newcomer === undefined) return;
  try {
    reuse(newcomer.folder);
    const blocks = sectionOf(QUICK_START, "Rust");
    await report.check(PLATFORM, "the quick start's programs compile, call and serve", async () => {
      const output = await newcomer.follow(blocks);
      assert.match(output.get("cargo run --release") ?? "", /^200 OK$/m);
      assert.match(output.get("cargo run --release --bin canary") ?? "", /^200 OK$/m);
    });
    await report.check(PLATFORM, "the program of the crate's page runs", async () => {
      const [program] = sectionOf("host/README.md", "selfsame-host").filter(
        ({ language }) => language === "rust",
      );
      assert.ok(program !== undefined);
      newcomer.write({ ...program, file: "src/bin/page.rs" });
      const output = await newcomer.run({ text: "cargo run --release --bin page", prints: undefined });
      assert.match(output, /^200 OK$/m);
    });
    await report.check(PLATFORM, "a private address is refused by address and option", async () => {
      const main = changedFile(blocks, "src/main.rs", ".allow_private(true)", "");
      for (const leaf of [false, true]) {
        const text = leaf ? main.text.replace(/\.listen\(.*\)/, "") : main.text;
        newcomer.write({ ...main, file: "src/bin/refused.rs", text });
        const why = await failureOf(newcomer, "cargo run --release --bin refused");
        const address = leaf ? "ws://127.0.0.1:7000/.mesh" : "ws://127.0.0.1:7002";
        const name = leaf ? "NoBootstrap" : "ForbiddenAddress";
        const parts = [name, newcomer.filled(address), "allow_private"];
        assert.ok(
          parts.every((part) => why.includes(part)),
          why,
        );
      }
    });
  } finally {
    // What Cargo has made of these programs, which stand in another folder each time.
    await newcomer.run({ text: "cargo clean --quiet --release -p hello", prints: undefined }).catch(() => "");
    await newcomer.leave();
  }
};

/**
 * Lets Cargo use what the repository has compiled: the same toolchain, versions and profile, which a newcomer would compile
 * for minutes.
 */
function reuse(folder: string): void {
  copyFileSync(join(ROOT, "rust-toolchain.toml"), join(folder, "rust-toolchain.toml"));
  copyFileSync(join(ROOT, "Cargo.lock"), join(folder, "Cargo.lock"));
  const manifest = readFileSync(join(ROOT, "Cargo.toml"), "utf8");
  const profiles = manifest.match(/^\[profile\.release[^\]]*\]\n(?:(?!\[).*\n)*/gm) ?? [];
  const target = `[build]\ntarget-dir = ${JSON.stringify(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"))}\n`;
  mkdirSync(join(folder, ".cargo"), { recursive: true });
  writeFileSync(join(folder, ".cargo/config.toml"), [target, ...profiles].join("\n"));
}
