import { byId, setText } from "../dom.ts";
import { checkFile } from "./file-check.ts";
import { GraphView, summaryOf } from "./graph-view.ts";
import type { Graph } from "./model.ts";
import { loadTools } from "./module.ts";
import { RecordView } from "./record-view.ts";
import type { CapsuleSource } from "./source.ts";

/** The part of the page that shows a capsule, and checks files. */
export class CapsulePanel {
  readonly #source: CapsuleSource | undefined;
  readonly #graphView: GraphView;
  readonly #recordView: RecordView;
  readonly #summary: HTMLElement = byId("capsule-summary", HTMLElement);
  #graph: Graph | undefined;
  #chosen: string | undefined;
  #isLooking = false;

  /** Without a source there is no capsule to show, and files are checked all the same. */
  constructor(source: CapsuleSource | undefined) {
    this.#source = source;
    const onChosen = (name: string): void => {
      this.choose(name).catch(console.error);
    };
    const graph = byId("capsule-graph", HTMLElement);
    this.#graphView = new GraphView(graph, { onChosen, onEnd: () => this.#more().catch(console.error) });
    this.#recordView = new RecordView(byId("capsule-record", HTMLElement), { onChosen });
    graph.hidden = source === undefined;
    if (source === undefined) setText(this.#summary, "No capsule is configured; files are checked below.");
    this.#listenForFiles();
  }

  /** Reads what is new and shows it; a look that lasts is not begun again. */
  async look(): Promise<void> {
    if (this.#source === undefined || this.#isLooking) return;
    this.#isLooking = true;
    try {
      this.#show(await this.#source.look());
    } catch (error) {
      setText(this.#summary, `The capsule cannot be read: ${messageOf(error)}`);
    } finally {
      this.#isLooking = false;
    }
  }

  /** Shows a record, proves it, and asks each replica for it. */
  async choose(name: string): Promise<void> {
    const source = this.#source;
    const graph = this.#graph;
    const record = graph?.records.find((one) => one.name === name);
    if (source === undefined || graph === undefined) return;
    if (record === undefined) {
      setText(
        this.#summary,
        `The record ${name.slice(0, 12)} is further back: scroll to the end of the list for more.`,
      );
      return;
    }
    this.#chosen = name;
    this.#graphView.choose(name);
    this.#graphView.reveal(name);
    this.#recordView.show(record, graph);
    const isShown = (): boolean => this.#chosen === name;
    const proving = source.prove(name).then(
      (proof) => {
        if (isShown()) this.#graphView.choose(name, this.#recordView.showProof(proof, graph));
      },
      (error: unknown) => {
        if (isShown()) this.#recordView.showNoProof(messageOf(error));
      },
    );
    const answers = await source.ask(name).catch(() => []);
    if (isShown()) this.#recordView.showAnswers(answers);
    await proving;
  }

  /** Checks a file and shows what it proves. */
  async check(file: File): Promise<void> {
    const result = byId("file-result", HTMLOutputElement);
    result.removeAttribute("data-ok");
    result.value = `Checking ${file.name}`;
    const { tools } = await loadTools();
    const { isTrue, text, proof } = await checkFile(file, tools);
    result.value = text;
    result.setAttribute("data-ok", String(isTrue));
    if (proof === undefined) return;
    this.#chosen = undefined;
    this.#recordView.showFile(proof);
    this.#graphView.choose(
      proof.name,
      proof.path.map(({ name, writer }) => ({ record: name, writer, by: "pointer" })),
    );
  }

  #show(graph: Graph): void {
    this.#graph = graph;
    setText(byId("capsule-description", HTMLElement), graph.description);
    setText(this.#summary, summaryOf(graph));
    this.#graphView.render(graph);
  }

  async #more(): Promise<void> {
    const source = this.#source;
    if (source === undefined || this.#isLooking) return;
    this.#isLooking = true;
    try {
      await source.more();
      this.#show(await source.look());
    } catch (error) {
      setText(this.#summary, `The capsule cannot be read further back: ${messageOf(error)}`);
    } finally {
      this.#isLooking = false;
    }
  }

  #listenForFiles(): void {
    const input = byId("file-input", HTMLInputElement);
    const check = (files: FileList | null | undefined): void => {
      const [file] = files ?? [];
      if (file !== undefined) this.check(file).catch((error: unknown) => this.#failCheck(error));
    };
    input.addEventListener("change", () => {
      check(input.files);
      // The same file may be chosen again.
      input.value = "";
    });
    const place = byId("file-drop", HTMLElement);
    for (const type of ["dragenter", "dragover", "dragleave", "drop"] as const) {
      place.addEventListener(type, (event) => {
        event.preventDefault();
        place.classList.toggle("over", type === "dragenter" || type === "dragover");
        if (type === "drop") check(event.dataTransfer?.files);
      });
    }
  }

  #failCheck(error: unknown): void {
    const result = byId("file-result", HTMLOutputElement);
    result.value = `The file cannot be checked: ${messageOf(error)}`;
    result.setAttribute("data-ok", "false");
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
