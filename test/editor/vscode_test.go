package editor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// started activates the extension with stand-ins of VS Code and its client, and prints where the server would start.
const started = `
const { Module } = require('module')
const load = Module._load
Module._load = (name, ...rest) => ({
  vscode: { workspace: { getConfiguration: () => ({ get: (_, otherwise) => otherwise }) } },
  'vscode-languageclient/node': {
    LanguageClient: class {
      constructor(_id, _name, server) { this.server = server }
      start() { console.log(this.server.command, this.server.args.join(' '), 'in', this.server.options?.cwd) }
    },
  },
}[name] ?? load(name, ...rest))
require(process.argv[1]).activate()
`

// TestVSCodeStartsNoProgramOfAFolder: on Windows a program without a path is looked for in the working directory first,
// which is the opened folder unless the extension names another one.
func TestVSCodeStartsNoProgramOfAFolder(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	home := t.TempDir()
	extension, err := filepath.Abs("../../editors/vscode/extension.js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", started, extension)
	cmd.Env = append(os.Environ(), "HOME="+home, "USERPROFILE="+home)
	out, err := cmd.CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "bunsen lsp in "+home; err != nil || got != want {
		t.Errorf("it starts %q, want %q (%v)", got, want, err)
	}
}
