package vm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// shell is SSH to the machine as user core.
type shell struct {
	dir  string
	port int
	// public is the line for authorized_keys.
	public string
}

// newShell makes a key pair.
func newShell(t *testing.T, dir string, port int) *shell {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "id"), pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return &shell{dir: dir, port: port, public: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line)))}
}

// run runs a script of sh and returns what it printed. Connections are shared until the machine goes down.
func (s *shell) run(ctx context.Context, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "ssh", "-q", "-F", "none", "-i", filepath.Join(s.dir, "id"), "-p",
		strconv.Itoa(s.port),
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o",
		"ConnectTimeout=60",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=12",
		"-o", "ControlMaster=auto", "-o", "ControlPersist=30", "-o", "ControlPath="+filepath.Join(s.dir, "ssh"),
		"core@127.0.0.1", script)
	cmd.WaitDelay = time.Second // the connection that stays holds its output
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("running %q on the machine: %w: %s", script, err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimRight(out.String(), "\n"), err
}

// hangUp ends the connection that stays.
func (s *shell) hangUp() {
	// there may be none
	_ = exec.Command("ssh", "-q", "-F", "none", "-o", "ControlPath="+filepath.Join(s.dir, "ssh"), "-O", "exit",
		"core@127.0.0.1").Run()
	_ = os.Remove(filepath.Join(s.dir, "ssh"))
}

// await waits until the machine lets core in.
func (s *shell) await(ctx context.Context) error {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		s.hangUp()
		_, err := s.run(ctx, "true")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for SSH on %s: %w", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), err)
		case <-tick.C:
		}
	}
}
