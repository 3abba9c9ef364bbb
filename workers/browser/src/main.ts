import {
  type AdmissionMethod,
  indexedDb,
  join,
  type Mesh,
  MeshError,
  type StoreFactory,
} from "selfsame/slim";
import { telemetry, untraced } from "selfsame/telemetry";

import { CapsulePanel } from "./capsule/panel.ts";
import { CapsuleSource } from "./capsule/source.ts";
import { invitationOf, loadConfig, type PageConfig, readerOf } from "./config.ts";
import { messageOf, Page, type PageMesh, showState } from "./page.ts";

/** The name of the database that keeps the page's identity. */
const DATABASE = "selfsame-page";
/** A name that nobody serves: a node that answers calls refuses it. */
const UNSERVED = "is-anybody-there";
/** Longest time for that. */
const ANSWER_MS = 3_000;

try {
  const config = await loadConfig();
  const storage = indexedDb(DATABASE);
  const admission = await admissionTo(config, storage);
  const module = await (admission?.core() ?? WebAssembly.compileStreaming(fetch("core.wasm")));
  showState("starting", "Joining the ring");
  const { owner, owned } = config;
  const mesh = await join({
    module,
    network: config.network,
    bootstrap: config.bootstrap,
    storage,
    admission,
    owner: owner === undefined ? undefined : Object.fromEntries(owned.map((name) => [name, owner])),
    allowPrivate: config.allowPrivate,
    domain: "browser",
    telemetry: telemetry({ name: "page" }),
  });
  const { capsule } = config;
  const source =
    capsule === undefined ? undefined : new CapsuleSource(untraced(mesh), capsule, readerOf(location.hash));
  // A page that is kept for the back button would hold its sockets open and answer nobody.
  addEventListener("pagehide", () => Promise.all([source?.close(), mesh.close()]).catch(console.error));
  new Page(meshOf(mesh, config), config, new CapsulePanel(source)).start();
} catch (error) {
  console.error(error);
  showState("failed", messageOf(error));
}

/** How the page is admitted, if the network is closed; pages of open ones do not load what that takes. */
async function admissionTo(
  { network, admission }: PageConfig,
  storage: StoreFactory,
): Promise<AdmissionMethod | undefined> {
  if (admission === undefined) return undefined;
  const { admissionOf } = await import("./closed.ts");
  return admissionOf(admission, { network, storage }, invitationOf(location.hash));
}

function meshOf(mesh: Mesh, { owner, owned }: PageConfig): PageMesh {
  const ask = (name: string): { unowned?: true } =>
    owner !== undefined && owned.includes(name) ? {} : { unowned: true };
  return {
    id: mesh.id,
    status: () => mesh.status(),
    findNode: (id) => mesh.findNode(id),
    find: (name) => mesh.find(name, ask(name)),
    answers: (id) => answers(mesh, id),
    fetch: (name, path) => mesh.fetch(`https://${name}.mesh${path}`, ask(name)),
    serve: async (name, answer) => {
      await mesh.serve(name, answer, { unowned: true });
      return () => mesh.withdraw(name);
    },
  };
}

/** Whether a node answers calls: one that does not serve the name says so itself. */
async function answers(mesh: Mesh, peer: string): Promise<boolean> {
  const call = { peer, unowned: true, retries: 0, timeout_ms: ANSWER_MS } as const;
  try {
    await (await mesh.fetch(`https://${UNSERVED}.mesh/`, call)).body?.cancel();
    return true;
  } catch (error) {
    return error instanceof MeshError && error.name === "StreamRefused";
  }
}
