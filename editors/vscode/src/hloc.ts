// Runs the program hloc with a text on its standard input.

import { spawn } from "node:child_process";

/** hloc is not there, or ended with a fault; the message is for people. */
export class HlocError extends Error {
  constructor(
    message: string,
    readonly isMissing = false,
  ) {
    super(message);
  }
}

/** Runs `command` until it ends, or until `signal` ends it; throws `HlocError` for a fault. */
export function run(
  command: string,
  words: readonly string[],
  text: string,
  options: { cwd?: string; signal?: AbortSignal } = {},
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, words, { ...options, stdio: ["pipe", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (data) => (said += data));
    child.stdin.on("error", () => undefined); // it ended before it read all
    child.on("error", (fault: NodeJS.ErrnoException) => {
      reject(new HlocError(fault.message, fault.code === "ENOENT"));
    });
    child.on("close", (code) => {
      if (code === 0) return resolve();
      reject(new HlocError(said.split("\n").find((line) => line.trim()) ?? `hloc ended with code ${code}`));
    });
    child.stdin.end(text);
  });
}
