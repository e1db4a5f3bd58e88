package render

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/content"
)

// publishContents writes the files that a render moved to the content store, and renews those that its MachineConfigs
// have there. If the content store lacks one of them, no node can run the config, so publishContents returns an error.
func publishContents(ctx context.Context, store *content.Store, rendered Rendered) error {
	paths, hashes := map[string]string{}, []string(nil)
	for _, f := range machineconfig.RemoteFiles(rendered.Config) {
		if hash, stored := machineconfig.StoredHash(f.URL); stored && paths[hash] == "" {
			paths[hash] = f.Path
			hashes = append(hashes, hash)
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	if err := store.Write(ctx, moved(rendered.Contents)); err != nil {
		return err
	}
	missing := store.Require(ctx, hashes)
	if len(missing) == 0 {
		return nil
	}
	var bad []error
	for _, hash := range missing {
		of := ""
		if name := rendered.Winner(disruption.KindFile, paths[hash]); name != "" {
			of = " of MachineConfig " + name
		}
		bad = append(bad, fmt.Errorf("file %s%s names %s, which the content store does not have: put the file "+
			"into the repository, and name it with Butane's `local:`", paths[hash], of,
			machineconfig.ShownAddress(machineconfig.StoredSource(hash))))
	}
	return fault.NewStalled(v1alpha1.ReasonInvalidTree, &missingContentError{errors.Join(bad...)})
}

// missingContentError names the files of a config that the content store does not have.
type missingContentError struct{ error }

// contentInterval is how often the controller renders a pool whose files are missing. No event says that the content
// store has them now.
const contentInterval = 10 * time.Second

// moved returns each hash of the moved files once.
func moved(files []machineconfig.LargeFile) (out []machineconfig.LargeFile) {
	seen := map[string]bool{}
	for _, f := range files {
		if !seen[f.Hash] {
			seen[f.Hash] = true
			out = append(out, f)
		}
	}
	return out
}
