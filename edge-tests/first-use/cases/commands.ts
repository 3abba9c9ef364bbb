import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { type Block, blocksOf, commandsOf, noteTried, sectionOf } from "../document.ts";
import { Newcomer } from "../newcomer.ts";
import type { Scenario, Stage } from "../scenario.ts";
import { playCapsuleHelp } from "./capsule-help.ts";
import { helpExamples } from "./help.ts";
import { command, optionsOf, QUICK_START, type Take, withMember } from "./member.ts";

const PLATFORM = "selfsame";
/** What the documents say of the world, on loopback: names of members are addresses of this machine, which are private. */
const ELSEWHERE: readonly (readonly [RegExp, string])[] = [
  [/wss:\/\/node\.example/g, "ws://127.0.0.1:7000"],
  [/wss:\/\/two\.example/g, "ws://127.0.0.1:7001"],
  [/wss:\/\/three\.example/g, "ws://127.0.0.1:7002"],
  // The address of a certificate.
  [/\bnode\.example:443\b/g, "127.0.0.1:7000"],
  [
    /^(?:date \| )?selfsame (?:node|proxy|find|call|store|doctor|rpc call|rpc serve) (?=.*--network )(?!.*--allow-private).*$/g,
    "$& --allow-private",
  ],
  [/192\.0\.2\.([12])/g, "127.0.0.$1"],
  // As many nodes as show that it works.
  [/--count 500\b/g, "--count 20"],
];
/** A server that answers each request with its body. */
const ECHO = `import { createServer } from "node:http";
createServer((request, answer) => request.pipe(answer)).listen(process.argv[2], "127.0.0.1", () => console.log("ready"));
`;
const SERVER = "python3 -m http.server 8080 --bind 127.0.0.1";

/** The program `selfsame`: its help texts, the sidecar's page, and the pages of the crate and for operators. */
export const commands: Scenario = async (stage) => {
  await section(stage, "the quick start's command line", async () => {
    const newcomer = await withMember(stage);
    return [newcomer, () => commandLine(newcomer)];
  });
  await section(stage, "the quick start's capsules", async () => {
    const newcomer = await Newcomer.arrive(optionsOf(stage));
    return [newcomer, () => capsules(newcomer)];
  });
  await stage.report.check(PLATFORM, "the sidecar's page goes beside the quick start", () => {
    const [quickStart, sidecar] = [blocksOf(QUICK_START), sectionOf("docs/sidecar.md", "In two minutes")].map(
      portsAndNetworks,
    );
    assert.deepEqual(
      sidecar?.filter((one) => quickStart?.includes(one)),
      [],
    );
  });
  await section(stage, "the sidecar's page", async () => {
    const newcomer = await Newcomer.arrive(optionsOf(stage));
    return [newcomer, () => sidecar(newcomer)];
  });
  await section(stage, "the pages of the crate and for operators", async () => {
    const newcomer = await elsewhere(stage);
    return [newcomer, () => pages(newcomer)];
  });
  await section(stage, "the pages' capsules", async () => {
    const newcomer = await elsewhere(stage);
    const [, capsules] = sectionOf("host/README.md", "The command");
    assert.ok(capsules !== undefined);
    return [newcomer, () => newcomer.follow([capsules])];
  });
  const examples = await helpExamples();
  for (const [name, play] of [
    ["help texts of nodes", playHelp],
    ["help texts of many nodes", playMany],
    ["help texts of capsules", playCapsuleHelp],
    ["help texts of the RPC", playRpcHelp],
    ["help texts and page of closed networks", playClosed],
  ] as const) {
    await section(stage, name, async () => {
      const newcomer = await elsewhere(stage);
      return [newcomer, () => play(newcomer, (path) => taken(examples, path))];
    });
  }
  await stage.report.check(PLATFORM, "no help text has an example that was not tried", () => {
    assert.deepEqual([...examples.keys()], []);
  });
};

function taken(examples: Map<string, string[]>, path: string): string[] {
  const found = examples.get(path);
  if (found === undefined) throw new Error(`selfsame ${path} --help has no examples`);
  examples.delete(path);
  return found;
}

function elsewhere(stage: Stage): Promise<Newcomer> {
  const options = optionsOf(stage);
  return Newcomer.arrive({ ...options, replaced: [...(options.replaced ?? []), ...ELSEWHERE] });
}

async function section(
  { report }: Stage,
  name: string,
  arrive: () => Promise<readonly [Newcomer, () => Promise<unknown>]>,
): Promise<void> {
  await report.check(PLATFORM, name, async () => {
    const [newcomer, play] = await arrive();
    try {
      await play();
    } finally {
      await newcomer.leave();
    }
  });
}

async function commandLine(newcomer: Newcomer): Promise<void> {
  const output = await newcomer.follow(sectionOf(QUICK_START, "Command line"));
  const of = (start: string): string => [...output].find(([text]) => text.startsWith(start))?.[1] ?? "";
  assert.ok(of("selfsame find").includes(newcomer.printed.get("MEMBER-ID") ?? "-"), of("selfsame find"));
  assert.match(of("selfsame call"), /Directory listing/);
}

async function capsules(newcomer: Newcomer): Promise<void> {
  const output = await newcomer.follow(sectionOf(QUICK_START, "Capsules on the command line"));
  const of = (what: string): string =>
    [...output].find(([text]) => text.includes(`selfsame capsule ${what} `))?.[1] ?? "";
  const record = newcomer.printed.get("RECORD") ?? "-";
  assert.ok(of("log").includes(record), of("log"));
  assert.match(of("read"), /\d\d:\d\d:\d\d/);
  assert.match(of("verify"), /1 records are proven/);
}

/** What only one program of a machine, or one who follows a page, can have. */
function portsAndNetworks(blocks: readonly Block[]): string[] {
  const texts = blocks.filter(({ language }) => language !== "text").map(({ text }) => text);
  return texts.flatMap((text) => text.match(/\b\d{4,5}\b|(?<=--network )\w+/g) ?? []);
}

async function sidecar(newcomer: Newcomer): Promise<void> {
  const output = await newcomer.follow(sectionOf("docs/sidecar.md", "In two minutes"));
  const answer = output.get("http_proxy=http://127.0.0.1:15002 curl http://check.mesh/") ?? "";
  assert.match(answer, /Directory listing/);
  const direct = await command(newcomer, "curl -s -H 'Host: check.mesh' http://127.0.0.1:15002/");
  assert.match(direct, /Directory listing/);
  const [problem] = sectionOf("docs/sidecar.md", "Answers that are the sidecar's own");
  assert.ok(problem !== undefined);
  noteTried(problem);
  const members = Object.keys(JSON.parse(problem.text) as object);
  const answered = await command(newcomer, "curl -s -H 'Host: nobody.mesh' http://127.0.0.1:15002/");
  for (const member of Object.keys(JSON.parse(answered) as object))
    assert.ok(members.includes(member), answered);
}

async function pages(newcomer: Newcomer): Promise<void> {
  const [nodes] = sectionOf("host/README.md", "The command");
  assert.ok(nodes !== undefined);
  const output = await newcomer.follow([nodes]);
  const called = [...output].find(([text]) => text.startsWith("selfsame call"))?.[1] ?? "";
  assert.match(called, /Directory listing/);
  newcomer.printed.set("ID", newcomer.printed.get("PEER-ID") ?? "");
  const telemetry = sectionOf("docs/operations.md", "Telemetry").filter(({ language }) => language === "sh");
  await newcomer.follow(telemetry);
  const looks = sectionOf("docs/operations.md", "Looking at a node");
  looks.forEach(noteTried);
  for (const { text } of looks.flatMap((block) => commandsOf(block.text))) {
    // The crate's page has put its first node elsewhere.
    const own = text
      .replace("./data", "./one")
      .replace("--data ./two", "--data ./three")
      .replace("two.", "three.");
    const looked = await command(newcomer, own);
    assert.match(looked, text.startsWith("selfsame doctor") ? /^ok /m : /twiitr/);
  }
}

async function playHelp(newcomer: Newcomer, take: Take): Promise<void> {
  await command(newcomer, SERVER);
  for (const [path, prints] of [
    ["id new", "ID"],
    ["id show", "ID"],
    ["owner new", "KEY"],
    ["owner show", "KEY"],
  ] as const) {
    for (const text of take(path)) await command(newcomer, text, prints);
  }
  await command(newcomer, "selfsame id new --network twiitr --data ./data3", "PEER-ID");
  for (const text of take("grant")) await command(newcomer, text);
  for (const text of take("node")) await command(newcomer, text);
  const serving =
    "selfsame node --network twiitr --unowned --join wss://node.example#ID --data ./hello --metrics 127.0.0.1:9464";
  await command(newcomer, `${serving} --serve hello=http://127.0.0.1:8080`);
  for (const text of take("")) if (!/^selfsame node/.test(text)) await command(newcomer, text);
  for (const path of ["find", "call", "proxy", "ring", "doctor"]) {
    for (const text of take(path)) await command(newcomer, text);
  }
  await newcomer.end((text) => text.includes("./data3"));
  for (const text of take("store")) await command(newcomer, text);
}

async function playRpcHelp(newcomer: Newcomer, take: Take): Promise<void> {
  await command(
    newcomer,
    "selfsame node --network twiitr --unowned --listen ws://127.0.0.1:7000 --data ./first",
    "ID",
  );
  writeFileSync(join(newcomer.folder, "echo.mjs"), ECHO);
  await command(newcomer, "node echo.mjs 8080");
  const [withTickets = "", inSession = "", withoutMesh = ""] = take("rpc serve");
  const [ping = "", date = "", pingWithoutMesh = ""] = take("rpc call");
  const end = (): Promise<void> => newcomer.end((text) => text.startsWith("selfsame rpc serve"));
  await command(newcomer, withTickets);
  for (const text of take("rpc route")) await command(newcomer, text);
  assert.equal(await command(newcomer, ping), "ping");
  assert.match(await command(newcomer, date), /\d\d:\d\d:\d\d/);
  await end();
  await command(newcomer, inSession);
  assert.equal(await command(newcomer, ping), "ping");
  await end();
  await command(newcomer, withoutMesh);
  assert.equal(await command(newcomer, pingWithoutMesh), "ping");
}

const DNS_COMMANDS = ["init", "sign", "revoke", "zone"].map((command) => `authority dns ${command}`);

async function playClosed(newcomer: Newcomer, take: Take): Promise<void> {
  const full = async (text: string): Promise<void> => {
    const [, key = ""] = (await command(newcomer, text)).trim().split("@");
    newcomer.printed.set("KEY", key);
  };
  for (const text of take("authority new")) await full(text);
  for (const text of take("authority show")) await full(text);
  for (const text of take("id key")) await command(newcomer, text, "NODE-KEY");
  for (const path of ["authority sign", "authority revoke", ...DNS_COMMANDS])
    for (const text of take(path)) await command(newcomer, text);
  await command(newcomer, "rm authority.key authority.key.signed");
  const pages = blocksOf("docs/closed-networks.md").filter(({ language }) => language === "sh");
  assert.equal(pages.length, 2);
  pages.forEach(noteTried);
  for (const { text, prints } of pages.flatMap((page) => commandsOf(page.text))) {
    if (text.startsWith("selfsame authority new")) await full(text);
    else await newcomer.run({ text, prints });
  }
}

async function playMany(newcomer: Newcomer, take: Take): Promise<void> {
  for (const text of take("nodes")) await command(newcomer, text);
}
