;;; hlo-ts-mode.el --- Major mode for HLO, with tree-sitter  -*- lexical-binding: t; -*-

;; Package-Requires: ((emacs "29.1"))

;;; Commentary:

;; HLO is the text of the programs that XLA compiles.  Colours, indentation and imenu
;; come from the grammar in editors/tree-sitter-hlo, the rest from `hloc lsp' by Eglot.

;;; Code:

(require 'treesit)
(require 'hlo-words)

(defvar eglot-server-programs)

(defun hlo-ts-mode--words (words &optional ending)
  "Return a regular expression of all of WORDS, with ENDING behind them."
  (concat "\\`" (regexp-opt words t) ending "\\'"))

(defvar hlo-ts-mode--font-lock-settings
  (treesit-font-lock-rules
   :language 'hlo :feature 'comment
   '((comment) @font-lock-comment-face)
   :language 'hlo :feature 'string
   '((string) @font-lock-string-face)
   :language 'hlo :feature 'keyword
   `([,@hlo-sections] @font-lock-keyword-face)
   :language 'hlo :feature 'definition
   '((computation name: (name) @font-lock-function-name-face)
     (header name: (name) @font-lock-constant-face)
     (parameter name: (name) @font-lock-variable-name-face)
     (instruction name: (name) @font-lock-variable-name-face))
   :language 'hlo :feature 'builtin
   `(((opcode) @font-lock-builtin-face
      (:match ,(hlo-ts-mode--words hlo-opcodes "\\(?:-\\(?:start\\|update\\|done\\)\\)?")
              @font-lock-builtin-face)))
   :language 'hlo :feature 'type
   `(((element_type) @font-lock-type-face
      (:match ,(hlo-ts-mode--words hlo-types) @font-lock-type-face)))
   :language 'hlo :feature 'constant
   `((constant) @font-lock-constant-face
     ((word) @font-lock-constant-face
      (:match ,(hlo-ts-mode--words hlo-constants) @font-lock-constant-face)))
   :language 'hlo :feature 'function
   `(((attribute name: (attribute_name) @role
                 value: [(word) (name)] @font-lock-function-call-face)
      (:match ,(hlo-ts-mode--words hlo-roles) @role))
     ((attribute name: (attribute_name) @role
                 value: (list [(word) (name)] @font-lock-function-call-face))
      (:match ,(hlo-ts-mode--words hlo-roles) @role)))
   :language 'hlo :feature 'property
   `(((attribute_name) @font-lock-property-name-face
      (:match ,(hlo-ts-mode--words hlo-attributes) @font-lock-property-name-face))
     (property_name) @font-lock-property-name-face)
   :language 'hlo :feature 'number
   '([(integer) (float) (sizes) (padding) (dim_labels)] @font-lock-number-face)
   :language 'hlo :feature 'variable
   '((operand name: (name) @font-lock-variable-use-face))
   :language 'hlo :feature 'bracket
   '(["(" ")" "[" "]" "{" "}"] @font-lock-bracket-face))
  "Colours of HLO; the words are those of hloc's tables.")

(defvar hlo-ts-mode--indent-rules
  '((hlo
     ((node-is "}") parent-bol 0)
     ((parent-is "\\`body\\'") parent-bol 2)
     ((parent-is "\\`source_file\\'") column-0 0)
     ((parent-is "\\`module\\'") column-0 0)
     (no-node parent-bol 0)))
  "Indentation: instructions by two columns.")

(defun hlo-ts-mode--name (node)
  "Return the name of the computation NODE."
  (treesit-node-text (treesit-node-child-by-field-name node "name") t))

;;;###autoload
(define-derived-mode hlo-ts-mode prog-mode "HLO"
  "Major mode for HLO, the text of the programs that XLA compiles."
  (setq-local comment-start "// ")
  (setq-local comment-start-skip "//+ *")
  (setq-local comment-end "")
  (setq-local truncate-lines t)
  (setq-local indent-tabs-mode nil)
  (modify-syntax-entry ?/ ". 124b")
  (modify-syntax-entry ?* ". 23")
  (modify-syntax-entry ?\n "> b")
  (dolist (letter '(?. ?- ?%))
    (modify-syntax-entry letter "_"))
  (when (treesit-ready-p 'hlo)
    (treesit-parser-create 'hlo)
    (setq-local treesit-font-lock-settings hlo-ts-mode--font-lock-settings)
    (setq-local treesit-font-lock-feature-list
                '((comment definition) (keyword string builtin type)
                  (constant function number property) (bracket variable)))
    (setq-local treesit-simple-indent-rules hlo-ts-mode--indent-rules)
    (setq-local treesit-defun-type-regexp "\\`computation\\'")
    (setq-local treesit-defun-name-function #'hlo-ts-mode--name)
    (setq-local treesit-simple-imenu-settings '((nil "\\`computation\\'" nil nil)))
    (treesit-major-mode-setup)))

;;;###autoload
(progn
  (add-to-list 'auto-mode-alist '("\\.hlo\\'" . hlo-ts-mode))
  (add-to-list 'magic-mode-alist '("[ \t\n]*HloModule[ \t]" . hlo-ts-mode))
  (with-eval-after-load 'eglot
    (add-to-list 'eglot-server-programs '(hlo-ts-mode . ("hloc" "lsp")))))

(provide 'hlo-ts-mode)
;;; hlo-ts-mode.el ends here
