"""The mode for Emacs, in `emacs --batch`: it compiles, colours, indents and lists; Eglot is live.

Needs Emacs 29 or later with tree-sitter; the parser needs `tree-sitter` and a C compiler.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generators import emacs
from tests.unit.editors.tree_sitter_hlo import grammar_or_skip
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "editors" / "emacs"


def test_the_words_are_those_of_the_tables() -> None:
    assert (FOLDER / "hlo-words.el").read_text() == emacs.page(), "run `make docs`"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of editors/emacs."""
    if shutil.which("emacs") is None:
        pytest.skip("emacs is not installed")
    lisp = "(princ (and (fboundp 'treesit-available-p) (treesit-available-p)))"
    if run("--eval", lisp) != "t":
        pytest.skip("needs Emacs 29 with tree-sitter")
    return shutil.copytree(FOLDER, tmp_path / "emacs")


def run(*words: str) -> str:
    command = ["emacs", "--batch", "--quick", *words]
    # Eglot starts `hloc`, of the environment of these tests.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_mode_compiles_without_a_warning(folder: Path) -> None:
    strict = "(setq byte-compile-error-on-warn t)"
    files = [str(folder / name) for name in ("hlo-words.el", "hlo-ts-mode.el")]
    run("-L", str(folder), "--eval", strict, "-f", "batch-byte-compile", *files)
    assert (folder / "hlo-ts-mode.elc").is_file()


LISP = """
(setq treesit-extra-load-path '("{folder}") vc-handled-backends nil)
(add-to-list 'load-path "{folder}")
(require 'hlo-ts-mode)
(find-file "{file}")
(font-lock-ensure)
(setq case-fold-search nil)
(princ (format "%s\\n" major-mode))
(dolist (word '("HloModule" "ENTRY" "y = " "f32" "parameter" "negat(" "// twice" "true"))
  (goto-char (point-min))
  (search-forward word)
  (princ (format "%s\\n" (get-text-property (match-beginning 0) 'face))))
(princ (format "%s\\n" (mapcar #'car (funcall imenu-create-index-function))))
(indent-region (point-min) (point-max))
(princ (buffer-string))
(require 'eglot)
(princ (nth 3 (eglot--guess-contact)))
"""
TEXT = """HloModule m, is_scheduled=true

f {
ROOT p = f32[4] parameter(0)
}

ENTRY e {
x = f32[4] parameter(0) // twice
      ROOT y = f32[4] negat(x)
}
"""


def test_colours_names_indentation_and_server(folder: Path, tmp_path: Path) -> None:
    grammar_or_skip(tmp_path).library(folder / "libtree-sitter-hlo.so")
    (tmp_path / "m.hlo").write_text(TEXT)
    script = tmp_path / "script.el"
    script.write_text(LISP.format(folder=folder, file=tmp_path / "m.hlo"))
    said = run("-l", str(script)).splitlines()
    assert said[0] == "hlo-ts-mode"
    kinds = ["keyword", "keyword", "variable-name", "type", "builtin"]
    faces = [f"font-lock-{kind}-face" for kind in kinds]
    comment = ["font-lock-comment-face", "font-lock-constant-face"]
    assert said[1:9] == [*faces, "nil", *comment]
    assert said[9] == "(f e)"
    indented = [f"  {line.strip()}" if " = " in line else line for line in TEXT.splitlines()]
    assert said[10 : 10 + len(indented)] == indented
    assert said[-1] == "(hloc lsp)"


LIVE = """
(setq treesit-extra-load-path '("{folder}") vc-handled-backends nil eglot-sync-connect {patience})
(add-to-list 'load-path "{folder}")
(require 'hlo-ts-mode)
(require 'eglot)
(find-file "{file}")
(apply #'eglot--connect (eglot--guess-contact))
(flymake-start)
(with-timeout ({patience} (error "no diagnostic"))
  (while (not (flymake-diagnostics)) (accept-process-output nil 0.1)))
(dolist (found (flymake-diagnostics))
  (princ (format "%d: %s\\n" (line-number-at-pos (flymake-diagnostic-beg found))
                 (flymake-diagnostic-text found))))
(goto-char (point-min))
(search-forward "p = ")
(goto-char (match-beginning 0))
(princ (eglot--dbind ((Hover) contents)
           (jsonrpc-request (eglot-current-server) :textDocument/hover
                            (eglot--TextDocumentPositionParams))
         (eglot--format-markup contents)))
(eglot-shutdown (eglot-current-server))
"""


@pytest.mark.slow
def test_eglot_shows_errors_and_hovers_of_the_language_server(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pygls", reason="the extra hloc[lsp]")
    grammar_or_skip(tmp_path).library(folder / "libtree-sitter-hlo.so")
    (tmp_path / "m.hlo").write_text(TEXT)
    script = tmp_path / "live.el"
    script.write_text(LIVE.format(folder=folder, file=tmp_path / "m.hlo", patience=PATIENCE))
    said = run("-l", str(script))
    assert "9: hloc [HLOC0104]: unknown opcode: negat; did you mean negate?" in said
    assert "p = f32[4]{0} parameter()" in said
    assert "memory: 16 B" in said
