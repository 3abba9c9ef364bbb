import process from "node:process";

const interactive = process.stderr.isTTY === true;
let open = false;

/** Says on standard error what is being done; on a terminal the line is rewritten in place. */
export function progress(text: string): void {
  if (!interactive) {
    if (!text.startsWith("round ")) process.stderr.write(`${text}\n`);
    return;
  }
  process.stderr.write(`\r\u001b[K${text}`);
  open = true;
}

/** Ends the line that was being rewritten. */
export function endProgress(): void {
  if (open) process.stderr.write("\r\u001b[K");
  open = false;
}
