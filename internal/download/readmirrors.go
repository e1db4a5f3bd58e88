package download

import (
	"errors"
	"io/fs"
	"os"
)

// ReadMirrors reads the mirrors of registries in a file of this machine, and in the files of the directory beside it.
func ReadMirrors(conf string) Mirrors {
	return LoadMirrors(conf, os.ReadFile, func(dir string) (names []string, _ error) {
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return names, err
	})
}
