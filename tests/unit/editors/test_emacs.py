"""The mode for Emacs, in `emacs --batch`: it compiles, and colours, indents and lists HLO.

Needs Emacs 29 or later with tree-sitter; the parser needs `tree-sitter` and a C compiler.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from docs.generators import emacs
from tests.unit.editors.tree_sitter_hlo import grammar_or_skip

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
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
