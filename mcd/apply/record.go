package apply

import (
	"errors"
	"fmt"
	"io/fs"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// LoadRecord reads the config in force from disk; nil for none.
func LoadRecord(files host.Files) (*mcfgv1.MachineConfig, error) {
	text, err := files.Read(host.RecordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	return plan.ParseRecord(text)
}
