import type { HistoryRecord, ProofInfo } from "selfsame/capsule";

import { html, setText } from "../dom.ts";
import { shortId } from "../model.ts";
import { count, type Graph, type Step, stepsOf, type Writer, writerOf } from "./model.ts";
import type { Answer, Proof } from "./source.ts";
import { bodyOf, titleOf } from "./text.ts";

/** A name in a sentence: enough to tell records apart. */
const SHORT = 12;

/** What the view tells. */
export type RecordEvents = {
  /** A record that this one points to was chosen. */
  onChosen: (name: string) => void;
};

/** Shows one record: its header, what it holds, each step of its proof, and what each replica says of it. */
export class RecordView {
  readonly #root: HTMLElement;
  readonly #events: RecordEvents;
  readonly #heading: HTMLHeadingElement = html("h3");
  readonly #facts: HTMLDListElement = html("dl", "facts");
  readonly #body: HTMLPreElement = html("pre", "body");
  readonly #proofHeading: HTMLHeadingElement = html("h4");
  readonly #steps: HTMLOListElement = html("ol", "steps");
  readonly #save: HTMLAnchorElement = html("a", "save", "Save this proof as a file");
  readonly #replicasHeading: HTMLHeadingElement = html("h4", "", "What each replica says of it");
  readonly #answers: HTMLUListElement = html("ul", "answers plain");

  constructor(root: HTMLElement, events: RecordEvents) {
    this.#root = root;
    this.#events = events;
    this.#answers.setAttribute("aria-live", "polite");
    const parts = [this.#heading, this.#facts, this.#body, this.#proofHeading, this.#steps, this.#save];
    root.replaceChildren(...parts, this.#replicasHeading, this.#answers);
  }

  /** Shows a record, whose proof is still to come. */
  show(record: HistoryRecord, graph: Graph): void {
    this.#root.hidden = false;
    setText(this.#heading, titleOf(record));
    this.#showFacts(record, graph.writers);
    this.#showBody(record);
    setText(this.#proofHeading, "Proof: asking for it");
    this.#steps.replaceChildren();
    this.#save.hidden = true;
    this.#replicasHeading.hidden = false;
    this.#answers.replaceChildren(html("li", "", "Asking each of them"));
  }

  /** Shows a proof that was verified, and resolves to its steps. */
  showProof({ info, file }: Proof, graph: Pick<Graph, "writers">): Step[] {
    const steps = stepsOf(info.path, { ...info.header, name: info.name });
    this.#showSteps(steps, info, graph.writers);
    URL.revokeObjectURL(this.#save.href);
    this.#save.href = URL.createObjectURL(new Blob([new Uint8Array(file)]));
    this.#save.download = `${info.name.slice(0, SHORT)}.proof`;
    this.#save.hidden = false;
    return steps;
  }

  /** Says why there is no proof. */
  showNoProof(why: string): void {
    setText(this.#proofHeading, `No proof: ${why}`);
    this.#steps.replaceChildren();
    this.#save.hidden = true;
  }

  /** Shows what came from each replica, and whether it was true. */
  showAnswers(answers: readonly Answer[]): void {
    this.#answers.replaceChildren(...answers.map(answerItem));
  }

  /** Shows what a proof file proves, without asking anybody. */
  showFile(info: ProofInfo): void {
    this.#root.hidden = false;
    setText(this.#heading, `Proof file: record ${info.name.slice(0, SHORT)}`);
    const record = { ...info.header, name: info.name, record: undefined, parents: info.header.backpointers };
    this.#showFacts(record, []);
    this.#body.hidden = info.body === undefined;
    setText(this.#body, info.body === undefined ? "" : bodyOf(info.body));
    this.#showSteps(stepsOf(info.path, record), info, []);
    this.#save.hidden = true;
    this.#replicasHeading.hidden = true;
    this.#answers.replaceChildren();
  }

  #showFacts(record: HistoryRecord, writers: readonly Writer[]): void {
    const { name, writer, kind, sequence, epoch, bodyLength, backpointers, parents } = record;
    const author = writerOf(writers, writer);
    const key = author.key === "" ? "" : `, key ${shortId(author.key)}`;
    const facts: [string, (string | Node)[]][] = [
      ["Record", [mono(name)]],
      ["Written by", [`${author.name}${key}`]],
      ["Place", [`sequence ${sequence}, epoch ${epoch}, ${KINDS[kind]}, ${count(bodyLength, "byte")}`]],
      ["Follows", this.#links(parents, "nothing: it is a first record")],
      [
        "Shortcuts",
        this.#links(
          backpointers.filter((pointer) => !parents.includes(pointer)),
          "none",
        ),
      ],
    ];
    const parts = facts.flatMap(([term, values]) => {
      const value = html("dd");
      value.append(...values);
      return [html("dt", "", term), value];
    });
    this.#facts.replaceChildren(...parts);
  }

  #links(names: readonly string[], none: string): (string | Node)[] {
    if (names.length === 0) return [none];
    return names.flatMap((name) => {
      const link = html("button", "pointer", name.slice(0, SHORT));
      link.type = "button";
      link.title = name;
      link.addEventListener("click", () => this.#events.onChosen(name));
      return [link, " "];
    });
  }

  #showBody({ record, kind }: HistoryRecord): void {
    this.#body.hidden = kind === "epoch";
    const text =
      record === undefined
        ? "Sealed: the owner has granted this page no key to read it. That it is what its writer wrote is proven all the same."
        : record.subrecords.map(bodyOf).join("\n") || bodyOf(record.content);
    this.#body.classList.toggle("sealed", record === undefined);
    setText(this.#body, text);
  }

  #showSteps(steps: readonly Step[], info: ProofInfo, writers: readonly Writer[]): void {
    setText(
      this.#proofHeading,
      `Proof: ${count(steps.length, "step")} from a signature, each verified in this page`,
    );
    const items = steps.map(({ record, writer, by }, index) => {
      const { name } = writerOf(writers, writer);
      const why =
        by === "signature"
          ? `signed by ${name}, whom the owner lets write`
          : `written by ${name}; the record before points to the hash of its header`;
      const isLast = index === steps.length - 1;
      return stepItem(record, `${why}${isLast ? ": this is the record" : ""}`);
    });
    const body = info.body === undefined ? [] : [stepItem("body", "has the hash that the header names")];
    this.#steps.replaceChildren(...items, ...body);
  }
}

const KINDS: Readonly<Record<HistoryRecord["kind"], string>> = {
  plain: "bytes",
  tree: "sub-records",
  epoch: "epoch record",
};

function stepItem(name: string, why: string): HTMLLIElement {
  const item = html("li", "verified");
  item.append(mono(name.slice(0, SHORT)), html("span", "why", why));
  return item;
}

function mono(text: string): HTMLElement {
  return html("code", "", text);
}

const OUTCOMES: Readonly<Record<Answer["outcome"], string>> = {
  verified: "gives it, verified",
  refused: "refused: it gives something else",
  missing: "does not have it",
  silent: "gave no answer",
};

function answerItem({ peer, label, outcome, why }: Answer): HTMLLIElement {
  const item = html("li", outcome);
  item.append(
    html("span", "where", label || "unknown"),
    mono(shortId(peer)),
    html("span", "outcome", OUTCOMES[outcome]),
    html("span", "why", why),
  );
  item.title = peer;
  return item;
}
