return {
  cmd = { "hloc", "lsp" },
  filetypes = { "hlo" },
}
