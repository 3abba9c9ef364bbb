import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [
    cloudflareTest({
      main: "./workerd/worker.ts",
      miniflare: {
        compatibilityDate: "2026-10-01",
        // Lets an entrypoint hear that its caller gave up.
        compatibilityFlags: ["enable_request_signal"],
        modulesRules: [{ type: "CompiledWasm", include: ["**/*.wasm"] }],
        durableObjects: {
          NODE: { className: "Node", useSQLite: true },
          ROOM: { className: "Room", useSQLite: true },
        },
      },
    }),
  ],
  test: { include: ["workerd/*.test.ts"], testTimeout: 30_000 },
});
