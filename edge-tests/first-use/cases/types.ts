import { join } from "node:path";

import { type Block, blocksOf, noteTried } from "../document.ts";
import { Newcomer } from "../newcomer.ts";
import type { Scenario } from "../scenario.ts";
import { optionsOf } from "./member.ts";

const PLATFORM = "tsc --strict";
const DOCUMENTS = [
  "README.md",
  "runtime/README.md",
  "docs/quick-start.md",
  "docs/operations.md",
  "docs/closed-networks.md",
];
/** Which types each platform brings. */
const PLATFORMS = {
  workers: { types: ["@cloudflare/workers-types"], lib: ["esnext"] },
  browser: { types: [], lib: ["esnext", "dom", "dom.iterable"] },
  node: { types: ["node"], lib: ["esnext", "dom", "dom.iterable"] },
} as const;
const INSTALL = "npm install selfsame hono typescript @types/node @cloudflare/workers-types";

/** Every program in TypeScript or JavaScript of the documents, each with what it imports, under the strict types. */
export const types: Scenario = async (stage) => {
  const { report } = stage;
  const newcomer = await Newcomer.arrive(optionsOf(stage));
  try {
    await report.check(PLATFORM, "the packages are installed", () =>
      newcomer.run({ text: INSTALL, prints: undefined }),
    );
    const programs = DOCUMENTS.flatMap(programsOf);
    for (const platform of Object.keys(PLATFORMS) as Platform[]) {
      const own = programs.filter(({ text }) => platformOf(text) === platform);
      for (const language of ["ts", "js"]) {
        const some = own.filter((program) => program.language === language);
        if (some.length === 0) continue;
        await report.check(PLATFORM, `${some.length} programs (${language}) for ${platform}`, () =>
          compile(newcomer, platform, language, some),
        );
      }
    }
  } finally {
    await newcomer.leave();
  }
};

type Platform = keyof typeof PLATFORMS;

async function compile(
  newcomer: Newcomer,
  platform: Platform,
  language: string,
  programs: readonly Block[],
): Promise<void> {
  const folder = `${platform}-${language}`;
  const files = programs.map(({ place, text }) => {
    const name = `${place.replaceAll(/[/:]/g, "-")}.${language}`;
    newcomer.write({ place, section: "", language, file: join(folder, name), text: `${text}\nexport {};\n` });
    return name;
  });
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: "es2022",
    module: "esnext",
    moduleResolution: "bundler",
    allowJs: true,
    checkJs: true,
    // Programs in JavaScript name no types.
    noImplicitAny: language === "ts",
    ...PLATFORMS[platform],
  };
  const file = join(folder, "tsconfig.json");
  const text = `\n${JSON.stringify({ compilerOptions, files })}`;
  newcomer.write({ place: file, section: "", language: "json", file, text });
  await newcomer.run({ text: `npx tsc -p ${folder}`, prints: undefined });
}

function platformOf(text: string): Platform {
  if (text.includes("cloudflare:workers") || text.includes("selfsame/workerd")) return "workers";
  return text.includes("selfsame/browser") ? "browser" : "node";
}

/** The programs of a document: a block without an import goes on where the one before it in its section ended. */
function programsOf(document: string): Block[] {
  const programs: Block[] = [];
  for (const block of blocksOf(document)) {
    // Deno has types of its own, and checks them itself.
    if (!["js", "ts"].includes(block.language) || /\bDeno\./.test(block.text)) continue;
    const last = programs.at(-1);
    noteTried(block);
    if (/^import /m.test(block.text)) programs.push(block);
    else if (last?.section === block.section) {
      programs[programs.length - 1] = { ...last, text: `${last.text}\n${block.text}` };
    } else {
      throw new Error(`${block.place} imports nothing, and nothing stands before it in its section`);
    }
  }
  return programs;
}
