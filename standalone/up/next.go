package up

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

// row is one suggestion for the user: a topic, and lines to type or read.
type row struct {
	topic string
	lines []string
}

// nextSteps has the data for a list of commands that a user can try.
type nextSteps struct {
	o   options
	dir plane.Dir
}

// next returns the table of suggestions after the start.
func (g nextSteps) next() string {
	rows := []row{{"Look around", []string{
		"export KUBECONFIG=" + quote(g.dir.Kubeconfig()),
		shellPath(filepath.Join(g.o.bin, "kubectl")) + " get " + g.firstKinds(),
	}}}
	if !g.o.bare {
		rows = append(rows, g.bunsenRows()...)
	}
	rows = append(rows,
		row{"Logs", []string{shellPath(g.dir.Logs())}},
		row{"Stop", []string{"Ctrl-C; the same command continues with the same data"}},
	)
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		for i, line := range r.lines {
			topic := r.topic
			if i > 0 {
				topic = ""
			}
			fmt.Fprintf(table, "  %s\t%s\n", topic, line)
		}
	}
	table.Flush()
	return "What to try next, in another terminal:\n\n" + out.String()
}

func (g nextSteps) firstKinds() string {
	if g.o.bare {
		return "namespaces"
	}
	return "mcp,gitsource,nodes"
}

func (g nextSteps) bunsenRows() []row {
	hosts := g.o.hostNames()
	rows := []row{
		g.consoleRow(),
		{"Watch", []string{shellPath(filepath.Join(g.o.bin, userProgram)) + " status -w"}},
		g.changeRow(),
		{"Ask", []string{shellPath(filepath.Join(g.o.bin, userProgram)) + " trace node/node-1      # which commit, which line"}},
		{"A new machine", g.machineLines()},
	}
	if len(hosts) > 0 {
		rows = append(rows, row{"The hosts", []string{
			shellPath(g.dir.Host(hosts[0])) + " and so on: real files and units in a folder each;",
			"only their reboots and running units are simulated, and logged as such",
		}})
	}
	return rows
}

// consoleRow returns the address of the console, which works once, and the command that opens the console at another
// address.
func (g nextSteps) consoleRow() row {
	again := shellPath(filepath.Join(g.o.bin, userProgram)) + " ui"
	address, err := os.ReadFile(consoleAddress(g.dir))
	if err != nil {
		return row{"The console", []string{again}}
	}
	return row{"The console", []string{strings.TrimSpace(string(address)), "in the browser; the address works " +
		"once, and " + again + " opens another"}}
}

// machineLines returns commands that create a pointer config, and that request a config as a new machine does.
func (g nextSteps) machineLines() []string {
	bunsen := shellPath(filepath.Join(g.o.bin, userProgram))
	return []string{
		fmt.Sprintf(
			"%s pointer --pool worker --server https://%s:%d > worker.ign      # for QEMU: docs/provisioning.md",
			bunsen, qemuHost, g.o.ports.ignition),
		fmt.Sprintf("curl --cacert %s -H \"Authorization: Bearer $(%s token create --pool worker --ttl 1h)\" "+
			"https://%s/config/worker",
			shellPath(filepath.Join(g.dir.Ignition(), "ca.crt")), bunsen, g.o.ignitionAddress()),
	}
}

// redacted returns the URL of a repository without the password in it.
func redacted(repo string) string {
	if u, err := url.Parse(repo); err == nil && u.User != nil {
		return u.Redacted()
	}
	return repo
}

// The commands of changeRow do not change the working directory, because the user types the next lines in the same
// shell.
func (g nextSteps) changeRow() row {
	if g.o.source.repo != "" {
		return row{"Change it", []string{"commit and push to " + redacted(g.o.source.repo)}}
	}
	return row{"Change it", []string{
		"git clone " + quote(g.dir.Repository()) + " my-config",
		"edit a file under " + filepath.Join("my-config", g.o.source.path, "pools", "worker") + ", then",
		"git -C my-config commit -am 'Change the workers' && git -C my-config push",
	}}
}

// shellPath returns a path, quoted for a shell. A path below the working directory is relative to it.
func shellPath(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(rel, "..") {
			path = rel
		}
	}
	return quote(path)
}

// quote quotes a text as one word of a shell.
func quote(text string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:@,=%", r)
	}
	if text != "" && strings.TrimLeftFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
