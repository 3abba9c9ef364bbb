import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";

import sparticuz from "@sparticuz/chromium";
import { type Browser, chromium, type Page } from "playwright-core";

import { bundle } from "./bundle.ts";
import type { Work } from "./measure.ts";

declare global {
  /** What the page defines. */
  function bench(task: string, count: number): Promise<number>;
}

/** Where a system keeps its own browser. */
const INSTALLED = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

const PAGE = '<!doctype html><title>bench</title><script type="module" src="/page.js"></script>';

/** Starts a Chromium: the one of the npm package where it has one, else an installed one. */
async function launch(): Promise<Browser> {
  if (process.platform === "linux" && process.arch === "x64") {
    const executablePath = await sparticuz.executablePath();
    return chromium.launch({ executablePath, args: sparticuz.args, headless: true });
  }
  const executablePath = INSTALLED.find((file) => existsSync(file));
  return chromium.launch(executablePath === undefined ? { channel: "chrome" } : { executablePath });
}

/** A page in Chromium that does tasks. */
export class BrowserPage implements AsyncDisposable {
  readonly #browser: Browser;
  readonly #page: Page;
  readonly #close: () => void;

  private constructor(browser: Browser, page: Page, close: () => void) {
    this.#browser = browser;
    this.#page = page;
    this.#close = close;
  }

  /** Opens the page of `entry`; says why when there is no browser. */
  static async open(entry: string, core: Uint8Array): Promise<BrowserPage | string> {
    let browser: Browser;
    try {
      browser = await launch();
    } catch (error) {
      return `Chromium does not start: ${String(error).split("\n")[0]}`;
    }
    const { script } = await bundle(entry);
    const server = createServer((request, response) => {
      if (request.url === "/core.wasm") {
        response.writeHead(200, { "content-type": "application/wasm" }).end(core);
      } else if (request.url === "/page.js") {
        response.writeHead(200, { "content-type": "text/javascript" }).end(script);
      } else {
        response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
      }
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await page.waitForFunction(() => typeof globalThis.bench === "function");
    return new BrowserPage(browser, page, () => server.close());
  }

  /** A task as work to be measured; the page tells only elapsed time. */
  work(task: string): Work {
    const run = async (count: number) => {
      const took = await this.#page.evaluate(([name, times]) => globalThis.bench(name, times), [
        task,
        count,
      ] as const);
      return took * 1e6;
    };
    return { name: `Chromium ${task}`, run };
  }

  /** Closes the browser. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
    this.#close();
  }
}
