import { readFileSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "../lib/run.ts";

/** A fenced block of code in a document. */
export interface Block {
  /** Path of the document in the repository, and the block's first line in it. */
  readonly place: string;
  /** The heading above it. */
  readonly section: string;
  /** The word after the fence. */
  readonly language: string;
  /** The file that it is, if its first line names one in a comment. */
  readonly file: string | undefined;
  readonly text: string;
}

const FENCE = /^```(\w*)$/;
const HEADING = /^#+ +(.*)$/;
/** `// hello.mjs`, `# Cargo.toml` or `<!-- index.html -->`. */
const FILE = /^(?:\/\/|#|<!--) ([\w./-]*\w\.\w+|\.dev\.vars)(?: -->)?$/;

/** The code blocks of a document, in their order. */
export function blocksOf(document: string): Block[] {
  return parseBlocks(document, readFileSync(join(ROOT, document), "utf8"));
}

/** The code blocks of a Markdown text. */
export function parseBlocks(document: string, markdown: string): Block[] {
  const blocks: Block[] = [];
  let section = "";
  let open: { readonly language: string; readonly line: number; readonly lines: string[] } | undefined;
  for (const [at, line] of markdown.split("\n").entries()) {
    const fence = FENCE.exec(line);
    if (open === undefined) {
      if (fence !== null) open = { language: fence[1] ?? "", line: at + 2, lines: [] };
      else section = HEADING.exec(line)?.[1] ?? section;
    } else if (fence === null) {
      open.lines.push(line);
    } else {
      const { language, lines } = open;
      const file = FILE.exec(lines[0] ?? "")?.[1];
      const place = `${document}:${open.line}`;
      blocks.push({ place, section, language, file, text: `${lines.join("\n")}\n` });
      open = undefined;
    }
  }
  if (open !== undefined) throw new Error(`${document}:${open.line} opens a block that nothing closes`);
  return blocks;
}

/** The blocks of one section; there must be some. */
export function sectionOf(document: string, section: string): Block[] {
  const blocks = blocksOf(document).filter((block) => block.section === section);
  if (blocks.length === 0) throw new Error(`${document} has no code in a section "${section}"`);
  return blocks;
}

/** The file of this name in a section, with a text replaced that must be there. */
export function changedFile(blocks: readonly Block[], file: string, from: string, to: string): Block {
  const block = blocks.find((one) => one.file === file);
  if (block === undefined) throw new Error(`no block is the file ${file}`);
  if (!block.text.includes(from)) throw new Error(`${block.place} has no "${from}"`);
  return { ...block, text: block.text.replace(from, to) };
}

const tried: Set<string> = new Set();

/** Notes that what a block says was done. */
export function noteTried({ place }: Block): void {
  tried.add(place);
}

/** The blocks of documents that nobody has tried, but for those of plain text. */
export function untried(documents: readonly string[]): Block[] {
  const blocks = documents.flatMap(blocksOf);
  return blocks.filter(({ place, language }) => !tried.has(place) && language !== "text");
}

/** A command of a block of shell lines. */
export interface Command {
  /** The command, on one line. */
  readonly text: string;
  /** What the comment beside it says it prints, such as `PEER-ID`. */
  readonly prints: string | undefined;
}

/** The commands of a block: lines that end with a backslash go on in the next one, comments are left out. */
export function commandsOf(text: string): Command[] {
  const lines = text.replaceAll(/\\\n\s*/g, "").split("\n");
  return lines.flatMap((line) => {
    const [, command = "", comment = ""] = /^(.*?)(?:(?:^|\s)# (.*))?$/.exec(line) ?? [];
    if (command.trim() === "") return [];
    return [
      {
        text: command.trim(),
        prints: /\bprints (?:the URL, and )?([A-Z]+(?:-[A-Z]+)*)\b/.exec(comment)?.[1],
      },
    ];
  });
}
