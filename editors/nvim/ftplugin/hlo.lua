vim.bo.commentstring = "// %s"
vim.bo.iskeyword = "@,48-57,_,.,-"
vim.bo.shiftwidth = 2
vim.bo.expandtab = true
vim.wo.wrap = false

-- Without the parser, the language server still sends colours.
if pcall(vim.treesitter.start) then
  vim.wo.foldmethod = "expr"
  vim.wo.foldexpr = "v:lua.vim.treesitter.foldexpr()"
  vim.wo.foldlevel = 99
end
