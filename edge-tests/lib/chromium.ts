import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

/** Where systems keep an installed Chromium. */
const INSTALLED = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "C:/Program Files/Google/Chrome/Application/chrome.exe",
];

/** What to do on a machine without a browser. */
export const HOW_TO_GET_A_BROWSER =
  "no Chromium here: install one (Debian: sudo apt-get install chromium) or set CHROMIUM_PATH to its executable";

/** A real Chromium, or `undefined` on a machine that has none; the caller closes it. */
export async function launchChromium(): Promise<Browser | undefined> {
  const found = await findChromium();
  if (found === undefined) {
    const { CI } = process.env;
    if (CI) throw new Error(HOW_TO_GET_A_BROWSER);
    return undefined;
  }
  return chromium.launch({ headless: true, ...found });
}

async function findChromium(): Promise<{ executablePath: string; args: string[] } | undefined> {
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const { CHROMIUM_PATH: chosen } = process.env;
  if (chosen !== undefined) {
    if (!existsSync(chosen)) throw new Error(`CHROMIUM_PATH: there is no ${chosen}`);
    return { executablePath: chosen, args };
  }
  if (process.platform === "linux" && process.arch === "x64") return packagedChromium(args);
  const executablePath = INSTALLED.find((path) => existsSync(path));
  return executablePath === undefined ? undefined : { executablePath, args };
}

/** The one that npm installs; it brings its own libraries. */
async function packagedChromium(args: string[]): Promise<{ executablePath: string; args: string[] }> {
  const { default: packaged } = await import("@sparticuz/chromium");
  return { executablePath: await packaged.executablePath(), args };
}
