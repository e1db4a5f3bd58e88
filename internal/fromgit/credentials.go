package fromgit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// secretKeys are the keys of a GitSource's Secret; each key is also the name of a file in the folder of credentials. If
// the value is true, the content is one word, and the reader removes a line break at its end.
var secretKeys = map[string]bool{
	"username": true, "password": true, "bearerToken": true, "ca.crt": false, "identity": false, "known_hosts": false,
	"hosts": false,
}

// credentials reads a folder of credentials, such as a mounted Secret or systemd's $CREDENTIALS_DIRECTORY. credentials
// returns nil if dir is empty.
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
		isWord, ok := secretKeys[name]
		if !ok {
			continue
		}
		if isWord {
			data = bytes.TrimRight(data, "\r\n")
		}
		out[name] = data
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the folder of credentials %s has none of the files username, password, bearerToken, "+
			"ca.crt (https), identity, known_hosts (ssh)", dir)
	}
	return out, nil
}

// keyFiles returns the content of a file, or of the files of a folder, by name.
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
			if !strings.HasPrefix(e.Name(), ".") { // Names that begin with .. are internal folders of a mounted Secret.
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
