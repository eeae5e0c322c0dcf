// The extension: starts `hloc lsp` for HLO texts, and shows what each pass does to one.
//
// All knowledge of HLO is in hloc. Errors, shapes, hints and lenses come from its language server;
// the page of passes is the one that `hloc --dump-dir` writes.

import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";

import { HlocError, run } from "./hloc";
import { passesPage } from "./passes";

let client: LanguageClient | undefined;
const panels = new Map<string, vscode.WebviewPanel>();

/** Called by VS Code when the first HLO text is opened. */
export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("hloc.showPasses", showPasses),
    vscode.commands.registerCommand("hloc.restartServer", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("hloc.path")) void restart();
    }),
  );
  await start();
}

/** Called by VS Code before it ends. */
export async function deactivate(): Promise<void> {
  await client?.stop();
  client = undefined;
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

async function start(): Promise<void> {
  const command = program();
  try {
    await run(command, ["lsp", "--help"], "");
  } catch (fault) {
    return tell(fault);
  }
  client = new LanguageClient(
    "hloc",
    "HLO",
    { command, args: ["lsp"] }, // with no transport named, it adds no option of its own
    { documentSelector: [{ language: "hlo" }] },
  );
  await client.start();
}

function program(): string {
  return vscode.workspace.getConfiguration("hloc").get<string>("path") || "hloc";
}

async function showPasses(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (document?.languageId !== "hlo") {
    return void vscode.window.showInformationMessage("Open a text of HLO first.");
  }
  const options = vscode.workspace.getConfiguration("hloc").get<string[]>("passOptions") ?? [];
  const title = `Passes over ${document.fileName.split(/[\\/]/).pop()}`;
  try {
    const page = await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title, cancellable: true },
      (_, token) => passesPage(program(), options, document.getText(), token),
    );
    const panel = panelFor(document.uri.toString(), title);
    panel.webview.html = page;
  } catch (fault) {
    tell(fault);
  }
}

function panelFor(key: string, title: string): vscode.WebviewPanel {
  const known = panels.get(key);
  if (known) {
    known.reveal();
    return known;
  }
  const panel = vscode.window.createWebviewPanel("hloc.passes", title, vscode.ViewColumn.Beside, {
    enableScripts: true,
    enableFindWidget: true,
    retainContextWhenHidden: true,
    localResourceRoots: [],
  });
  panel.onDidDispose(() => panels.delete(key));
  panels.set(key, panel);
  return panel;
}

function tell(fault: unknown): void {
  if (fault instanceof vscode.CancellationError) return;
  const isMissing = fault instanceof HlocError && fault.isMissing;
  const message = isMissing
    ? `${program()} was not found. Install it with: pip install 'hloc[lsp]', or set hloc.path.`
    : String(fault instanceof Error ? fault.message : fault);
  void vscode.window.showErrorMessage(message, ...(isMissing ? ["Open Settings"] : [])).then((choice) => {
    if (choice) void vscode.commands.executeCommand("workbench.action.openSettings", "hloc.path");
  });
}
