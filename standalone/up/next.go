package up

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/bunsen-os/bunsen/standalone/datadir"
)

// row is one thing to try: what for, and the lines to type or read.
type row struct {
	topic string
	lines []string
}

// guide knows what there is to try.
type guide struct {
	o   options
	dir datadir.Dir
}

// next is the table of what to try, for the end of a start.
func (g guide) next() string {
	rows := []row{{"Look around", []string{
		"export KUBECONFIG=" + quote(g.dir.Kubeconfig()),
		near(filepath.Join(g.o.bin, "kubectl")) + " get " + g.firstKinds(),
	}}}
	if !g.o.bare {
		rows = append(rows, g.bunsenRows()...)
	}
	rows = append(rows,
		row{"Logs", []string{near(g.dir.Logs())}},
		row{"Stop", []string{"Ctrl-C; the same command goes on where this one ended"}},
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

func (g guide) firstKinds() string {
	if g.o.bare {
		return "namespaces"
	}
	return "mcp,gitsource,nodes"
}

func (g guide) bunsenRows() []row {
	hosts := g.o.hostNames()
	rows := []row{
		{"Watch", []string{near(filepath.Join(g.o.bin, "bunsen")) + " status -w"}},
		g.changeRow(),
		{"Ask", []string{near(filepath.Join(g.o.bin, "bunsen")) + " trace node/node-1      # which commit, which line"}},
		{"A new machine", g.machineLines()},
	}
	if len(hosts) > 0 {
		rows = append(rows, row{"The hosts", []string{
			near(g.dir.Host(hosts[0])) + " and so on: real files and units in a folder each;",
			"only their reboots and running units are simulated, and logged as such",
		}})
	}
	return rows
}

// machineLines make what a new machine starts with, and ask as it would.
func (g guide) machineLines() []string {
	bunsen := near(filepath.Join(g.o.bin, "bunsen"))
	return []string{
		fmt.Sprintf("%s pointer --pool worker --server https://%s:%d > worker.ign      # for QEMU: docs/provisioning.md",
			bunsen, virtualHost, g.o.ports.ignition),
		fmt.Sprintf("curl --cacert %s -H \"Authorization: Bearer $(%s token create --pool worker --ttl 1h)\" https://%s/config/worker",
			near(filepath.Join(g.dir.Ignition(), "ca.crt")), bunsen, g.o.ignitionAddress()),
	}
}

// redacted is a repository's address without a password.
func redacted(repo string) string {
	if u, err := url.Parse(repo); err == nil && u.User != nil {
		return u.Redacted()
	}
	return repo
}

// changeRow changes no folder: the lines after it are typed in the same shell.
func (g guide) changeRow() row {
	if g.o.source.repo != "" {
		return row{"Change it", []string{"commit and push to " + redacted(g.o.source.repo)}}
	}
	return row{"Change it", []string{
		"git clone " + quote(g.dir.Repository()) + " my-config",
		"edit a file under " + filepath.Join("my-config", g.o.source.path, "pools", "worker") + ", then",
		"git -C my-config commit -am 'Change the workers' && git -C my-config push",
	}}
}

// near is a path as seen from here, where that is shorter and still plain,
// ready to be pasted into a shell.
func near(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(rel, "..") {
			path = rel
		}
	}
	return quote(path)
}

// quote makes one word of a shell out of any text.
func quote(text string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:@,=%", r)
	}
	if text != "" && strings.TrimLeftFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
