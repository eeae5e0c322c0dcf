// The page of passes: what `hloc --dump-dir` writes, in one text.

import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";

import { run } from "./hloc";

/** Runs the passes over `text` and returns the page; throws `HlocError` for a fault in the text. */
export async function passesPage(
  command: string,
  options: readonly string[],
  text: string,
  token: vscode.CancellationToken,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "hloc-passes-"));
  const abort = new AbortController();
  token.onCancellationRequested(() => abort.abort());
  try {
    const words = ["-", ...options, "--dump-dir=passes", "--color=never"];
    await run(command, words, text, { cwd: folder, signal: abort.signal });
    return await inOnePage(join(folder, "passes"));
  } catch (fault) {
    throw token.isCancellationRequested ? new vscode.CancellationError() : fault;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A view has no files beside its page, so the graphs of the states go into it. */
async function inOnePage(folder: string): Promise<string> {
  const page = await readFile(join(folder, "index.html"), "utf8");
  const names = (await readdir(folder)).filter((name) => name.endsWith(".html") && name !== "index.html");
  const pages = await Promise.all(names.map((name) => readFile(join(folder, name), "utf8")));
  const graphs = Object.fromEntries(names.map((name, place) => [name, pages[place]]));
  const data = JSON.stringify(graphs).replaceAll("<", "\\u003c");
  const element = `<script type="application/json" id="graphs">${data}</script>\n`;
  return page.replace('<script type="application/json" id="data">', (found) => element + found);
}
