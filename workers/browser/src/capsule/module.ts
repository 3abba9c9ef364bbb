import { CapsuleModule } from "selfsame/capsule";

/** The compiled module of capsules and an instance that verifies files. */
export type CapsuleTools = { module: WebAssembly.Module; tools: CapsuleModule };

let loading: Promise<CapsuleTools> | undefined;

/** Loads `capsule.wasm` when it is first needed: a page that shows no capsule does not fetch it. */
export function loadTools(): Promise<CapsuleTools> {
  loading ??= load().catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

async function load(): Promise<CapsuleTools> {
  const module = await WebAssembly.compileStreaming(fetch("capsule.wasm"));
  return { module, tools: await CapsuleModule.instantiate(module) };
}
