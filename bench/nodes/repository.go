package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/flow"
	"github.com/bunsen-os/bunsen/bench/machines"
)

// repository is a repository on disk, which the controller follows.
type repository struct {
	dir string
	// gateway and first are values that the changes of the measurement change: one of the document, and one of the
	// first row.
	gateway, first int
	nodes, content int
}

// init creates the repository without a commit.
func (r *repository) init(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(r.dir, "pools", flow.Pool), 0o755); err != nil {
		return err
	}
	return corpus.Init(ctx, r.dir)
}

// commit writes the files and commits them. It returns the hash of the commit.
func (r *repository) commit(ctx context.Context, subject string) (string, error) {
	for name, text := range map[string]string{
		"10-common.bu": r.common(), "20-network.bu": r.network(),
		"nodes.yaml": r.table(),
	} {
		if err := os.WriteFile(filepath.Join(r.dir, "pools", flow.Pool, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return corpus.Commit(ctx, r.dir, subject)
}

// common is the document of all nodes, with files of 1 KiB.
func (r *repository) common() string {
	var b strings.Builder
	b.WriteString("variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n")
	for i := range max(r.content>>10, 1) {
		fmt.Fprintf(&b, "    - path: /etc/common/%04d.conf\n      mode: 0644\n      contents:\n        inline: |\n", i)
		for line := range 32 {
			fmt.Fprintf(&b, "          setting-%04d-%02d = %07d\n", i, line, (i*32+line)*7919%9999991)
		}
	}
	return b.String()
}

// network is the document with facts.
func (r *repository) network() string {
	return fmt.Sprintf(`variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/hostname
      mode: 0644
      contents: {inline: "${node.name}"}
    - path: /etc/NetworkManager/system-connections/static.nmconnection
      mode: 0600
      contents:
        inline: |
          [connection]
          id=static
          type=ethernet
          interface-name=${node.interface}
          [ipv4]
          method=manual
          address1=${node.address},10.0.0.%d
`, r.gateway+1)
}

// table is the row of each node.
func (r *repository) table() string {
	var b strings.Builder
	for i := range r.nodes {
		third := 0
		if i == 0 {
			third = r.first
		}
		fmt.Fprintf(&b, "%s: {address: 10.%d.%d.%d/8, interface: eno%d}\n", machines.Name(i), 1+i/250, third, 1+i%250,
			1+i%4)
	}
	return b.String()
}
