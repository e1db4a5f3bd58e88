package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/examples"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

// NoCI is the value of a flag for no checks of pull requests.
const NoCI = "none"

// checks are the files that check a pull request: where they are in the examples, and where each service reads them.
var checks = map[forge.Kind]map[string]string{
	forge.GitHub: {
		"ci/github/bunsen-validate.yml": ".github/workflows/bunsen-validate.yml",
		"ci/github/bunsen-plan.yml":     ".github/workflows/bunsen-plan.yml",
	},
	forge.GitLab: {"ci/gitlab/.gitlab-ci.yml": ".gitlab-ci.yml"},
	forge.Gitea:  {"ci/forgejo/bunsen.yml": ".forgejo/workflows/bunsen.yml"},
}

// Checks returns the files that check a pull request on a service: github, gitlab or forgejo. An empty name is the
// service of the repository's URL, NoCI none. The result is empty if the service is not known.
func Checks(service, url string) (map[string][]byte, error) {
	kind := forge.Kind(service)
	switch service {
	case NoCI:
		return nil, nil
	case "forgejo":
		kind = forge.Gitea
	case "":
		if at, err := source.ParseURL(url); err == nil {
			kind, _ = forge.KindOf(at.Host)
		}
	}
	if checks[kind] == nil && service != "" {
		return nil, cli.Invalid(fmt.Errorf("--ci %s: want github, gitlab, forgejo or %s", service, NoCI))
	}
	out := map[string][]byte{}
	for from, to := range checks[kind] {
		text, err := examples.CI.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("reading the example %s: %w", from, err)
		}
		out[to] = text
	}
	return out, nil
}

// RemoteOf returns the URL of the remote origin of the git repository of which a directory is the top, without
// credentials; "" if there is none. It runs no program.
func RemoteOf(dir string) string {
	at, err := git.FindAround(dir)
	if err != nil || at.Folder != "" || at.WorkTree == "" {
		return ""
	}
	repo, err := at.Open()
	if err != nil {
		return ""
	}
	return originOf(repo)
}

// PublicKeys reads files with public SSH keys, such as ~/.ssh/id_ed25519.pub.
func PublicKeys(files []string) (keys []string, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, cli.Invalid(fmt.Errorf("reading the public SSH key: %w", err))
		}
		if strings.Contains(string(text), "PRIVATE KEY") {
			return nil, cli.Invalid(fmt.Errorf("reading the public SSH key: %s has a private key; name the file with "+
				"the extension .pub", file))
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			key, comment, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
			if err != nil || len(options) > 0 {
				return nil, cli.Invalid(fmt.Errorf("reading the public SSH key: %s has no public keys as in "+
					"~/.ssh/id_ed25519.pub, or keys with options", file))
			}
			line = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
			if comment != "" && comment == strings.Map(plainComment, comment) {
				line += " " + comment
			}
			keys = append(keys, line)
		}
	}
	return keys, nil
}

// plainComment drops characters with a meaning in YAML.
func plainComment(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("@.-_", r):
		return r
	}
	return -1
}

// WriteNew writes the files of a new repository into a directory that may have others, such as .git, and returns which
// it wrote. A file that exists stays as it is, such as the README of a git service. If it is a document, the directory
// is a repository already, and WriteNew writes nothing.
func WriteNew(dir string, files map[string][]byte) (wrote []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, cli.Invalid(fmt.Errorf("making the directory of the repository: %w", err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, cli.Invalid(fmt.Errorf("opening the directory of the repository: %w", err))
	}
	defer root.Close()
	var documents []string
	for _, folder := range []string{"base", "cluster", "pools"} {
		if _, err := root.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
			documents = append(documents, folder+"/")
		}
	}
	if len(documents) > 0 {
		return nil, cli.Invalid(fmt.Errorf("%s has %s already, and nothing was written: name a new directory",
			filepath.Clean(dir), strings.Join(documents, ", ")))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			wrote = append(wrote, name)
		}
	}
	for _, name := range wrote {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return nil, cli.Invalid(fmt.Errorf("writing %s: %w", name, err))
		}
		if err := writeFile(root, name, files[name]); err != nil {
			return nil, cli.Invalid(fmt.Errorf("writing %s: %w", name, err))
		}
	}
	return wrote, nil
}

// writeFile replaces no file.
func writeFile(root *os.Root, name string, text []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
