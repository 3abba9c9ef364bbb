/** The live page in a real browser: it joins, draws the ring, and serves a function that `curl` reaches. */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { CapsuleModule, capsuleModule } from "selfsame/capsule";
import { loginStatus } from "selfsame-twiitr/login";

import { writeFiles } from "../lib/capsule-files.ts";
import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA, PASSWORD, startCluster, type TestCluster, within } from "../lib/cluster.ts";
import { startLyingReplica } from "../lib/lying-replica.ts";
import { run } from "../lib/run.ts";

const screenshots = join(DATA, "screenshots");
const DESKTOP = { viewport: { width: 1440, height: 900 } };
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

const tools = await CapsuleModule.instantiate(await capsuleModule());
let browser: Browser | undefined = await launchChromium();
const skip = browser === undefined ? HOW_TO_GET_A_BROWSER : false;
let test: TestCluster;
let context: BrowserContext;
let page: Page;
const problems: string[] = [];

before(async () => {
  if (browser === undefined) return;
  mkdirSync(screenshots, { recursive: true });
  test = await startCluster("page");
  context = await browser.newContext({ ...DESKTOP, colorScheme: "light" });
  page = await open(context);
});

after(async () => {
  await browser?.close();
  browser = undefined;
  await test?.stop();
});

async function open(where: BrowserContext, hash = ""): Promise<Page> {
  const opened = await where.newPage();
  opened.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  opened.on("pageerror", (error) => problems.push(error.message));
  await opened.goto(`${test.cluster.urlOf("deno")}/${hash}`);
  await opened.locator('#state[data-state="joined"]').waitFor({ timeout: 20_000 });
  return opened;
}

async function curl(url: string, ...args: string[]): Promise<{ status: number; body: string }> {
  const printed = await run("curl", [
    "--silent",
    "--show-error",
    "--max-time",
    "10",
    ...args,
    "-w",
    "\n%{http_code}",
    url,
  ]);
  const at = printed.lastIndexOf("\n");
  return { status: Number(printed.slice(at + 1)), body: printed.slice(0, at) };
}

const rowsOf = (where: Page) => where.locator("#capsule-graph li");

/** Signs in so many times at once, with a wrong password. */
async function loginAt(platform: "deno" | "workerd", times: number): Promise<void> {
  const logins = Array.from({ length: times }, () =>
    loginStatus(test.cluster.urlOf(platform), "ada", "wrong"),
  );
  assert.deepEqual(new Set(await Promise.all(logins)), new Set([401]));
}

/** The file that a node gives to prove a record of the audit log. */
async function proofOf(record: string): Promise<Uint8Array> {
  const response = await fetch(`${test.cluster.urlOf("deno")}/mesh/audit/proof/${record}`);
  assert.equal(response.status, 200);
  return new Uint8Array(await response.arrayBuffer());
}

/** The newest records of a platform that the page draws, the newest first. */
async function drawn(where: Page, platform: "deno" | "workerd"): Promise<string[]> {
  return rowsOf(where)
    .filter({ hasText: platform })
    .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-key") ?? ""));
}

/**
 * Signs in until a record is there whose proof begins with the signature of a later one: what comes together has one. All that came is
 * drawn then: what comes later would move the record out of the part of the list that is.
 */
async function recordOnPath(where: Page): Promise<string> {
  const together = 3;
  let found: string | undefined;
  await within(20_000, async () => {
    const before = new Set(await drawn(where, "deno"));
    await loginAt("deno", together);
    let came: string[] = [];
    await within(10_000, async () => {
      came = (await drawn(where, "deno")).filter((name) => !before.has(name));
      assert.ok(came.length >= together);
    });
    for (const name of came) {
      if (tools.verifyProof(await proofOf(name)).path.length > 1) found ??= name;
    }
    assert.ok(found, "each record has a signature of its own");
  });
  return found ?? "";
}

const captions = (where: Page): Promise<string[]> => where.locator("#ring .member .name").allTextContents();

describe("the live page", { skip }, () => {
  it("joins as a leaf and draws every member, with what it serves", async () => {
    await within(10_000, async () => {
      assert.deepEqual((await captions(page)).sort(), ["deno", "wasmtime", "workerd"]);
      const services = await page.locator("#ring .member .service").allTextContents();
      assert.deepEqual(services.sort(), [
        "audit",
        "audit",
        "audit",
        "check",
        "check",
        "handler",
        "handler",
        "observability",
      ]);
      assert.equal(await page.locator("#ring .arc").count(), 3);
      assert.equal(await page.locator("#ring .link.relay").count(), 2);
    });
    const own = page.locator("#nodes tr.self");
    assert.match((await own.textContent()) ?? "", /this page.*leaf, 2 relays/);
  });

  it("serves a function that curl reaches through every gateway", async () => {
    await page.locator("#serve-answer").fill("Hello from the test");
    await page.locator("#serve-button").click();
    await page.locator("#serve-button", { hasText: "Stop" }).waitFor();
    for (const platform of ["deno", "workerd"] as const) {
      const url = `${test.cluster.urlOf(platform)}/mesh/hello-page/some/path?x=1`;
      await within(10_000, async () => {
        const { status, body } = await curl(url, "--json", '{"from":"curl"}');
        assert.equal(status, 200, body);
        const { answer, path, body: sent, caller } = JSON.parse(body) as Record<string, string>;
        const expected = [
          "Hello from the test",
          "/some/path?x=1",
          '{"from":"curl"}',
          test.cluster.plan.ids[platform],
        ];
        assert.deepEqual([answer, path, sent, caller], expected);
      });
    }
  });

  it("shows the command that works, and the calls as they arrive", async () => {
    const command = (await page.locator("#curl").textContent()) ?? "";
    assert.equal(command, `curl ${test.cluster.urlOf("deno")}/mesh/hello-page/`);
    const before = await page.locator("#calls .call").count();
    const [program = "", ...args] = command.split(" ");
    assert.match(await run(program, ["--silent", ...args]), /Hello from the test/);
    await within(5000, async () => assert.ok((await page.locator("#calls .call").count()) > before));
    const latest = await page.locator("#calls .call").first().textContent();
    assert.match(latest ?? "", /GET \/ from [0-9a-f]{6} \(session\)200 in \d+ ms/);
  });

  it("calls services of others: those of the owner, its own, and none", async () => {
    const call = async (name: string): Promise<string> => {
      await page.locator("#call-name").fill(name);
      await page.locator("#call-form button").click();
      await page.locator("#call-result[data-ok]").waitFor({ timeout: 15_000 });
      return (await page.locator("#call-result").textContent()) ?? "";
    };
    assert.match(await call("check"), /^405 /);
    assert.match(await call("hello-page"), /^200 .*Hello from the test/s);
    assert.match(await call("nobody-serves-this"), /nobody serves this name/);
  });

  it("shows services with their replicas, and the canary's share beside what was measured", async () => {
    const check = page.locator("#services .offer", { has: page.locator("h3", { hasText: /^check$/ }) });
    await within(10_000, async () => {
      const replicas = await check.locator(".replica .where").allTextContents();
      assert.deepEqual(replicas.sort(), ["deno", "wasmtime"]);
    });
    const [asked] = await check.locator(".split-row .shares").allTextContents();
    assert.equal(asked, "90 : 10 %");
    await page.locator("#call-name").fill("check");
    await page.locator("#call-path").fill("/");
    await page.locator("#call-times").fill("200");
    await page.locator("#call-form button").click();
    await page.locator("#call-result", { hasText: "200 answers in" }).waitFor({ timeout: 30_000 });
    await within(15_000, async () => {
      const shares = await check.locator(".split-row .shares").allTextContents();
      const [whole = 0, canary = 0] = (shares[1] ?? "").split(/[: %]+/).map(Number);
      // Of 200 draws with 10 % five standard deviations: a right split is wrong here once in a million runs.
      assert.ok(Math.abs(whole + canary - 100) < 0.2 && canary > 0 && canary < 21, shares[1]);
      assert.match((await check.locator(".rate").textContent()) ?? "", /^[1-9]/);
    });
    await page.locator("#call-times").fill("1");
  });

  it("shows the path of a request, in the list and on the ring", async () => {
    const url = `${test.cluster.urlOf("deno")}/mesh/handler/login`;
    const login = async (): Promise<void> => {
      const { status } = await curl(url, "--json", JSON.stringify({ user: "ada", password: PASSWORD }));
      assert.equal(status, 200);
    };
    // Handlers call check by RPC, which no trace tells of.
    const path = /POST handler.*deno \u2192 workerd200 in/s;
    const request = page.locator("#requests .request", { hasText: path }).first();
    await within(30_000, async () => {
      await login();
      await request.waitFor({ timeout: 2_000 });
      if ((await request.getAttribute("aria-pressed")) === "false") await request.click();
      const hops = await page.locator("#path .hop .asked").allTextContents();
      assert.deepEqual(hops, ["POST handler"]);
    });
    const ways = await page.locator("#ring .way").count();
    const ends = await page.locator("#path .hop .ends").allTextContents();
    const moving = new Set(ends.filter((end) => new Set(end.split(" \u2192 ")).size === 2));
    assert.equal(ways, moving.size);
    await page.locator('#requests .request[aria-pressed="true"]').click();
  });

  it("looks right on a desktop, dark and light, and on a phone", async () => {
    assert.ok(browser);
    await page.screenshot({ path: join(screenshots, "desktop-light.png") });
    await page.emulateMedia({ colorScheme: "dark" });
    await page.screenshot({ path: join(screenshots, "desktop-dark.png") });
    const phone = await browser.newContext({ ...PHONE, colorScheme: "light" });
    const small = await open(phone);
    await within(10_000, async () => assert.equal((await captions(small)).length, 3));
    await small.screenshot({ path: join(screenshots, "phone.png"), fullPage: true });
    for (const shown of [page, small]) {
      const overflow = await shown.evaluate("document.documentElement.scrollWidth - innerWidth");
      assert.ok(Number(overflow) <= 0, `the page is ${overflow} pixels too wide`);
    }
    await phone.close();
  });

  it("has a name for every control and works by keyboard alone", async () => {
    const names = await page
      .locator("input, button")
      .evaluateAll((elements) =>
        elements.map(
          (element) => (element as HTMLInputElement).labels?.[0]?.textContent || element.textContent || "",
        ),
      );
    assert.ok(
      names.every((name) => name.trim() !== ""),
      names.join("|"),
    );
    await page.locator("#call-path").fill("/login");
    await page.locator("#call-times").fill("1");
    await page.locator("#call-name").fill("handler");
    await page.keyboard.press("Enter");
    await page.locator("#call-result", { hasText: "200 in" }).waitFor({ timeout: 15_000 });
  });

  it("keeps its identity over a reload and is drawn again", async () => {
    const id = await page.locator("#nodes tr.self td.id").getAttribute("title");
    await page.reload();
    await page.locator('#state[data-state="joined"]').waitFor({ timeout: 20_000 });
    await within(10_000, async () => {
      assert.equal(await page.locator("#nodes tr.self td.id").getAttribute("title"), id);
    });
  });

  it("draws the audit log as it grows, and verifies it without being able to read it", async () => {
    const summary = page.locator("#capsule-summary");
    await within(10_000, async () => {
      assert.match(
        (await summary.textContent()) ?? "",
        /records by [34] writers, .*, epoch 0; each verified in this page$/,
      );
    });
    const newest = (): Promise<string | null> => rowsOf(page).first().getAttribute("data-key");
    const before = await newest();
    await Promise.all((["deno", "workerd"] as const).map((platform) => loginAt(platform, 2)));
    await within(10_000, async () => {
      assert.notEqual(await newest(), before);
      const rows = await page.locator("#capsule-graph button.row").allTextContents();
      for (const platform of ["deno", "workerd"])
        assert.ok(rows.some((row) => row.startsWith(`${platform}sealed`)));
      assert.ok(rows.some((row) => row.includes("merge")) && rows.some((row) => row.includes("signed head")));
      assert.ok((await page.locator("#capsule-graph .edge.merge").count()) > 0);
      assert.ok((await page.locator("#capsule-graph .edge.parent").count()) > 0);
    });
  });

  it("shows the path of the proof of a record that is clicked on, and what each replica says of it", async () => {
    const record = await recordOnPath(page);
    await page.locator(`#capsule-graph li[data-key="${record}"] button`).click();
    await within(10_000, async () => {
      const steps = await page.locator("#capsule-record .steps li").allTextContents();
      // Two records at least, and the body.
      assert.ok(steps.length >= 3, steps.join("|"));
      assert.match(steps[0] ?? "", /signed by deno, whom the owner lets write/);
      assert.match(steps.at(-2) ?? "", new RegExp(`^${record.slice(0, 12)}.*: this is the record$`));
      assert.match(steps.at(-1) ?? "", /^body/);
      // The last step is the body; between n records there are n - 1 lines.
      assert.equal(await page.locator("#capsule-graph .edge.proof").count(), steps.length - 2);
      const answers = await page.locator("#capsule-record .answers li").allTextContents();
      assert.equal(
        answers.filter((answer) => answer.includes("gives it, verified")).length,
        3,
        answers.join("|"),
      );
    });
    assert.match((await page.locator("#capsule-record .body").textContent()) ?? "", /^Sealed/);
  });

  it("goes from record to record by keyboard", async () => {
    const focused = () => page.evaluate("document.activeElement.parentElement.dataset.key");
    const [first, second] = await rowsOf(page).all();
    assert.ok(first && second);
    await page.locator('#capsule-graph button[aria-pressed="true"]').focus();
    await page.keyboard.press("Home");
    assert.equal(await focused(), await first.getAttribute("data-key"));
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), await second.getAttribute("data-key"));
    await page.keyboard.press("ArrowUp");
    assert.equal(await focused(), await first.getAttribute("data-key"));
    await page.keyboard.press("Enter");
    assert.equal(await first.locator("button").getAttribute("aria-pressed"), "true");
    await page.locator("#capsule-record .steps li", { hasText: "signed by" }).waitFor();
  });

  it("opens what records hold for whoever has the reader's link, and saves proofs that it checks itself", async () => {
    assert.ok(browser);
    const where = await browser.newContext({ ...DESKTOP, acceptDownloads: true });
    const reader = await open(where, `#reader=${test.cluster.audit?.reader}`);
    const row = reader.locator("#capsule-graph button.row", { hasText: "ada was refused" }).first();
    await row.click();
    await within(10_000, async () => {
      assert.match((await reader.locator("#capsule-record .body").textContent()) ?? "", /"user": "ada"/);
    });
    const [download] = await Promise.all([
      reader.waitForEvent("download"),
      reader.locator("#capsule-record .save").click(),
    ]);
    await reader.locator("#file-input").setInputFiles(await download.path());
    await reader.locator('#file-result[data-ok="true"]').waitFor();
    assert.match(
      (await reader.locator("#capsule-record h3").textContent()) ?? "",
      /^Proof file: record [0-9a-f]{12}/,
    );
    await where.close();
  });

  it("checks files that are dropped or chosen, and names what is wrong with them", async () => {
    const { exported, proof } = await writeFiles("in a file");
    const result = page.locator("#file-result");
    const choose = async (bytes: Uint8Array, isTrue: boolean): Promise<string> => {
      const file = { name: "chosen", mimeType: "application/octet-stream", buffer: Buffer.from(bytes) };
      await page.locator("#file-input").setInputFiles(file);
      await page.locator(`#file-result[data-ok="${isTrue}"]`).waitFor();
      return (await result.textContent()) ?? "";
    };
    assert.match(await choose(proof, true), /^True: a writer of the capsule [a-z2-7]{52} has signed/);
    assert.match((await page.locator("#capsule-record .body").textContent()) ?? "", /^in a file$/);
    const changed = (bytes: Uint8Array): Uint8Array =>
      bytes.map((byte, at) => (at === bytes.length - 40 ? byte ^ 1 : byte));
    assert.match(await choose(changed(proof), false), /^chosen is refused: .*, at \d+$/);
    assert.match(await choose(changed(exported), false), /^chosen is refused: .*, at \d+$/);
    assert.match(await choose(exported.slice(0, 10), false), /neither an exported capsule nor a proof/);
    const drop = await page.evaluateHandle(
      `(() => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array([${exported.join()}])], "dropped"));
        return data;
      })()`,
    );
    await page.dispatchEvent("#file-drop", "drop", { dataTransfer: drop });
    await page.locator('#file-result[data-ok="true"]').waitFor();
    assert.match(
      (await result.textContent()) ?? "",
      /with 1 record, each signed for by a writer; nothing is missing/,
    );
  });

  it("has nothing to complain about while all members run", () => {
    assert.deepEqual(problems, []);
  });

  it("draws a member's end and return", async () => {
    await test.cluster.kill("wasmtime");
    await within(30_000, async () => assert.deepEqual((await captions(page)).sort(), ["deno", "workerd"]));
    await test.cluster.start("wasmtime");
    await within(30_000, async () => assert.equal((await captions(page)).length, 3));
    const account = JSON.stringify({ user: "ada", password: PASSWORD });
    // It is a member before its service has been published.
    await within(30_000, async () => {
      const login = await curl(`${test.cluster.urlOf("workerd")}/login`, "--json", account);
      assert.equal(login.status, 200);
    });
  });

  it("refuses the false record of a replica that lies, and takes the true one from the others", async () => {
    const { cluster } = test;
    const capsule = cluster.audit?.capsule ?? "";
    const record = (await rowsOf(page).first().getAttribute("data-key")) ?? "";
    const { body } = tools.verifyProof(await proofOf(record));
    const liar = await startLyingReplica(test, capsule, body ?? assert.fail("the proof has no body"));
    try {
      const verified = page.locator("#capsule-record .answers li.verified");
      // A replica that has just come back may be found later than the others.
      await within(30_000, async () => {
        await page.locator(`#capsule-graph li[data-key="${record}"] button`).click();
        await page.locator("#capsule-record .answers li.refused").waitFor({ timeout: 5000 });
        await verified.nth(2).waitFor({ timeout: 5000 });
      });
      const refused = await page.locator("#capsule-record .answers li.refused").allTextContents();
      assert.equal(refused.length, 1);
      assert.match(refused[0] ?? "", /^liar.*refused: it gives something else.*a body is not the one/);
      assert.ok(liar.lies() > 0);
      assert.equal(await verified.count(), 3);
      await page.locator(`#capsule-record .steps li`, { hasText: "this is the record" }).waitFor();
      await page.locator(".capsule").screenshot({ path: join(screenshots, "capsule-refused.png") });
    } finally {
      await liar.close();
    }
  });
});
