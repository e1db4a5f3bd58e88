package e2e

import (
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bunsen-os/bunsen/test/ports"
)

// bare NAME FLAG... starts a machine-config-server without a cluster on a free port, $NAME; NAME/certs/ca.crt has what
// machines believe, NAME/cache is its disk. It waits until the server knows its pools.
func (s *story) bare(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return usage("bare NAME FLAG...")
	}
	address, err := ports.Address()
	if err != nil {
		return err
	}
	name, dir := args[0], filepath.Join(s.work, args[0])
	ts.Setenv(name, "https://"+address)
	flags := []string{
		"--listen", address, "--cert-dir", filepath.Join(dir, "certs"), "--cache-dir",
		filepath.Join(dir, "cache"),
	}
	if err := s.start(ts, name, filepath.Join(s.bin, "machine-config-server"),
		append(flags, args[1:]...)...); err != nil {
		return err
	}
	return s.answers(address, "readyz")
}
