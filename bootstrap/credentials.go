package bootstrap

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// secretKeys are the keys of a GitSource's Secret, which are the names of files here. The words among them are one line,
// and an editor's line break at their end is none of theirs.
var secretKeys = map[string]struct{ word bool }{
	"username": {true}, "password": {true}, "bearerToken": {true}, "ca.crt": {}, "identity": {}, "known_hosts": {}, "hosts": {},
}

// credentials reads a folder of them; nil where none is named. A mounted Secret is such a folder, and systemd's
// $CREDENTIALS_DIRECTORY.
func credentials(dir string) (map[string][]byte, error) {
	if dir == "" {
		return nil, nil
	}
	found, err := keyFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of credentials: %w", err)
	}
	out := map[string][]byte{}
	for name, data := range found {
		key, ok := secretKeys[name]
		if !ok {
			continue
		}
		if key.word {
			data = bytes.TrimRight(data, "\r\n")
		}
		out[name] = data
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the folder of credentials %s has none of the files username, password, bearerToken, ca.crt (https), identity, known_hosts (ssh)", dir)
	}
	return out, nil
}

// keyFiles reads a file, or the files of a folder, by name.
func keyFiles(path string) (map[string][]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	names := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") { // a mounted Secret's own folders
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
	}
	out := map[string][]byte{}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out[filepath.Base(name)] = data
	}
	return out, nil
}
