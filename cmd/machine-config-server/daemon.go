package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/bunsen-os/bunsen/mcs/join"
)

// readDaemons reads the binaries of the daemon. Compressing one binary takes readDaemons a few seconds.
func readDaemons(paths []string) (out join.Binaries, err error) {
	var problems []error
	seen := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("reading --daemon: %w", err))
			continue
		}
		binary, err := join.NewBinary(content)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("reading --daemon %s: %w", path, err))
			continue
		case seen[binary.Arch] != "":
			problems = append(problems, fmt.Errorf("--daemon: %s and %s are both for %s", seen[binary.Arch], path,
				binary.Arch))
			continue
		}
		seen[binary.Arch] = path
		out = append(out, binary)
	}
	return out, errors.Join(problems...)
}
