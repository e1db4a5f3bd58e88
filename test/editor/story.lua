-- What a user does in Neovim, and what Neovim shows. It runs in the folder of a config repository.
local function say(...) io.stdout:write(string.format(...), '\n') end

local function fail(...) say(...) vim.cmd('cquit 1') end

-- waits for a condition and returns the milliseconds that it took
local function wait(what, condition)
  local from = vim.loop.hrtime()
  if not vim.wait(20000, condition, 5) then fail('%s did not happen', what) end
  return (vim.loop.hrtime() - from) / 1e6
end

vim.cmd('edit base/10-chrony.bu')
local client = vim.lsp.start_client({ cmd = { vim.env.BUNSEN, 'lsp' }, root_dir = vim.fn.getcwd() })
vim.lsp.buf_attach_client(0, client)
wait('the start of the server', function()
  local c = vim.lsp.get_client_by_id(client)
  return c and c.initialized
end)

local function line_of(text)
  for n, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    if line:find(text, 1, true) then return n, line:find(text, 1, true) - 1 end
  end
  fail('no line has %s', text)
end

local function ask(method, more)
  local params = vim.tbl_extend('force', vim.lsp.util.make_position_params(0, 'utf-16'), more or {})
  local answers = vim.lsp.buf_request_sync(0, method, params, 5000)
  for _, a in pairs(answers or {}) do return a.result end
end

local function hover(text)
  local line, column = line_of(text)
  vim.api.nvim_win_set_cursor(0, { line, column })
  local shown
  wait('the hover of ' .. text, function()
    shown = ask('textDocument/hover')
    return shown and shown.contents.value:find('A change of it', 1, true)
  end)
  say('\nK on %s, line %d:', text, line)
  say('%s', shown.contents.value)
end

-- A typo is marked while it is typed.
hover('/etc/chrony.conf')
local line = line_of('contents:')
vim.api.nvim_buf_set_lines(0, line - 1, line, false, { '      content:' })
say('\ntyped in line %d: content:', line)
local took = wait('the mark', function() return #vim.diagnostic.get(0) > 0 end)
for _, d in ipairs(vim.diagnostic.get(0)) do
  say('marked: line %d, columns %d-%d: %s', d.lnum + 1, d.col + 1, d.end_col, d.message)
end
say('within a second: %s', took < 1000 and 'yes' or ('no, after ' .. took .. ' ms'))
io.stderr:write(string.format('marked after %.0f ms\n', took))

-- Its correction is applied, and the mark goes.
vim.api.nvim_win_set_cursor(0, { line, 6 })
local here = { line = line - 1, character = 6 }
local actions = ask('textDocument/codeAction', {
  range = { start = here, ['end'] = here }, context = { diagnostics = {} },
})
for _, a in ipairs(actions) do say('action: %s', a.title) end
vim.lsp.util.apply_workspace_edit(actions[1].edit, 'utf-16')
say('line %d is: %s', line, vim.api.nvim_buf_get_lines(0, line - 1, line, false)[1])
wait('the end of the mark', function() return #vim.diagnostic.get(0) == 0 end)
say('no problems')

-- From the patch of a pool to the document of the base.
vim.cmd('edit! pools/worker/10-chrony.bu')
vim.lsp.buf_attach_client(0, client)
local at
vim.api.nvim_win_set_cursor(0, { line_of('storage:'), 0 })
wait('the definition', function()
  at = ask('textDocument/definition')
  return at and #at > 0
end)
say('\ndefinition of the patched document: %s', vim.fn.fnamemodify(vim.uri_to_fname(at[1].uri), ':.'))

vim.lsp.stop_client(client)
wait('the end of the server', function() return vim.lsp.get_client_by_id(client) == nil end)
vim.cmd('qall!')
