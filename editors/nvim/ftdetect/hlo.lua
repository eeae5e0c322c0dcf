vim.filetype.add({
  extension = { hlo = "hlo" },
  pattern = {
    -- Dumps of XLA are .txt files.
    [".*%.txt"] = function(_, buffer)
      local first = vim.api.nvim_buf_get_lines(buffer, 0, 1, false)[1] or ""
      if first:match("^%s*HloModule%s") then
        return "hlo"
      end
    end,
  },
})
