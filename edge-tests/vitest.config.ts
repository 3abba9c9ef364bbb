import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [
    cloudflareTest({
      main: "./workerd/worker.ts",
      miniflare: {
        compatibilityDate: "2026-10-01",
        modulesRules: [{ type: "CompiledWasm", include: ["**/*.wasm"] }],
        durableObjects: { NODE: { className: "Node", useSQLite: true } },
      },
    }),
  ],
  test: { include: ["workerd/*.test.ts"], testTimeout: 30_000 },
});
