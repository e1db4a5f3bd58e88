package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// programName is the name of the binary on a machine.
const programName = "machine-config-daemon"

func newCopy() *cobra.Command {
	return &cobra.Command{
		Use:   "copy DIRECTORY",
		Short: "Copy this program into a directory",
		Long: `copy writes this program to DIRECTORY/` + programName +
			`. The image of the daemon has no other program that can copy files. An
init container of machine-config-server runs it, so that the server can install the daemon on new machines.`,
		Example: `  machine-config-daemon copy /daemon`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{Err: errors.New("copy needs one directory")}
			}
			from, err := os.Open("/proc/self/exe")
			if err != nil {
				return fmt.Errorf("reading this program: %w", err)
			}
			defer from.Close() //nolint:errcheck // it was only read
			return writeProgram(from, filepath.Join(args[0], programName))
		},
	}
}

// writeProgram replaces a program on the disk atomically.
func writeProgram(from io.Reader, to string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Chmod(0o755)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return nil
}
