package up

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The file names of Bunsen's programs in the folder --bin.
const (
	controllerProgram = "machine-config-controller"
	// notifierName is the name of the notifier's process and ServiceAccount. Its program is the controller's.
	notifierName  = "machine-config-notifier"
	serverProgram = "machine-config-server"
	hostProgram   = "simulated-host"
	userProgram   = "bunsen"
)

// preflight returns an error for each missing program or file, before the start of any process.
func preflight(o options) error {
	var errs []error
	if !o.bare {
		errs = append(errs, programs(o.bin), kustomization(o.config))
		if o.source.repo == "" {
			errs = append(errs, gitInPath())
		}
	}
	return errors.Join(errs...)
}

func programs(bin string) error {
	var missing []string
	for _, name := range []string{controllerProgram, serverProgram, hostProgram, userProgram} {
		info, err := os.Stat(filepath.Join(bin, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s has no %s: run make build, or set another folder with --bin, or start without them "+
		"with --bare",
		bin, strings.Join(missing, ", no "))
}

func kustomization(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "kustomization.yaml")); err != nil {
		return fmt.Errorf("%s has no kustomization.yaml: set the folder of Bunsen's CRDs and RBAC with --config", dir)
	}
	return nil
}

func gitInPath() error {
	if _, err := exec.LookPath("git"); err != nil {
		return errors.New("git is not in PATH: install it, or set a repository with --repo")
	}
	return nil
}
