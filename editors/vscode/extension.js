// The extension starts `bunsen lsp` for the folders that are open, and shows what it answers. The settings of a folder
// cannot name the program: bunsen.path counts for the machine only. It starts in the home directory, because Windows
// looks for a program in the working directory first, and that of a folder is anybody's.
const { homedir } = require('os')
const { workspace } = require('vscode')
const { LanguageClient } = require('vscode-languageclient/node')

let client

exports.activate = async () => {
  client = new LanguageClient('bunsen', 'Bunsen', {
    command: workspace.getConfiguration('bunsen').get('path', 'bunsen'),
    args: ['lsp'],
    options: { cwd: homedir() },
  }, {
    documentSelector: [{ scheme: 'file', language: 'yaml' }],
  })
  await client.start()
}

exports.deactivate = () => client?.stop()
