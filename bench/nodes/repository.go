package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bunsen-os/bunsen/bench/machines"
)

// pool is the measured pool.
const pool = "worker"

// repository is a repository on disk, which the controller follows.
type repository struct {
	dir string
	// gateway and first are values that the changes of the measurement change: one of the document, and one of the first row.
	gateway, first int
	nodes, content int
}

// init creates the repository without a commit.
func (r *repository) init(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(r.dir, "pools", pool), 0o755); err != nil {
		return err
	}
	return r.git(ctx, "init", "-q", "-b", "main")
}

// commit writes the files and commits them. It returns the hash of the commit.
func (r *repository) commit(ctx context.Context, subject string) (string, error) {
	for name, text := range map[string]string{"10-common.bu": r.common(), "20-network.bu": r.network(), "nodes.yaml": r.table()} {
		if err := os.WriteFile(filepath.Join(r.dir, "pools", pool, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	if err := r.git(ctx, "add", "-A"); err != nil {
		return "", err
	}
	if err := r.git(ctx, "-c", "user.name=bench", "-c", "user.email=bench@example.com", "commit", "-q", "-m", subject); err != nil {
		return "", err
	}
	hash, err := exec.CommandContext(ctx, "git", "-C", r.dir, "rev-parse", "HEAD").Output()
	return strings.TrimSpace(string(hash)), err
}

func (r *repository) git(ctx context.Context, args ...string) error {
	if text, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.dir}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", args[0], err, text)
	}
	return nil
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
		fmt.Fprintf(&b, "%s: {address: 10.%d.%d.%d/8, interface: eno%d}\n", machines.Name(i), 1+i/250, third, 1+i%250, 1+i%4)
	}
	return b.String()
}
