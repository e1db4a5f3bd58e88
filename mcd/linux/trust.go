package linux

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// trustLimit is the limit for the distribution's program. It starts a process for each authority, which takes minutes
// on a machine that is slow or busy.
const trustLimit = 10 * time.Minute

// trustStore is the host.TrustStore of a real machine: its own program.
type trustStore struct {
	root *files.Root
	dir  string
}

// Update implements host.TrustStore. It runs only programs of package distribution.
func (s trustStore) Update(ctx context.Context, program string) error {
	if !slices.ContainsFunc(distribution.Systems(), func(o distribution.OS) bool {
		return o.TrustStore.Program == program
	}) {
		return fmt.Errorf("%s is not the program of a trust store: %w", program, host.ErrUnsupported)
	}
	found := machine.FindProgram(s.root, s.dir, program)
	if found.Path == "" {
		return fmt.Errorf("the machine does not have %s: %w", program, host.ErrUnsupported)
	}
	_, err := found.Run(ctx, trustLimit)
	return err
}

// sayTrust returns a host.TrustStore of a machine that does not run: it calls say with one line.
func sayTrust(prefix string, say func(line string)) host.TrustStore {
	return saidTrust(func(program string) { say(prefix + ": " + program) })
}

type saidTrust func(program string)

// Update implements host.TrustStore.
func (s saidTrust) Update(_ context.Context, program string) error {
	s(program)
	return nil
}
