package git

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/config"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/source"
)

// ModulesFile is the path of the file that names the submodules of a commit.
const ModulesFile = ".gitmodules"

// MaxModulesBytes is the largest size of the file .gitmodules.
const MaxModulesBytes = 64 << 10

// Modules maps the path of each submodule to its address, as the file .gitmodules has it.
type Modules map[string][]string

// ParseModules reads a file .gitmodules. Parse ignores entries without a path, as git does.
func ParseModules(data []byte) (Modules, error) {
	if len(data) > MaxModulesBytes {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are allowed", ModulesFile, len(data), MaxModulesBytes)
	}
	file := config.NewModules()
	if err := file.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("reading %s: %s", ModulesFile, source.Line(err.Error()))
	}
	out := Modules{}
	for _, m := range file.Submodules {
		if m.Path != "" {
			out[m.Path] = append(out[m.Path], m.URL)
		}
	}
	return out, nil
}

// Address returns the address of the submodule at a path, for a repository at the address parent. The error is the
// reason to refuse the submodule, without the address, which may hold a password.
func (m Modules) Address(parent source.Address, at string) (source.Address, error) {
	urls := m[at]
	switch {
	case len(urls) == 0:
		return source.Address{}, fmt.Errorf("%s has no entry for it: git submodule add writes one", ModulesFile)
	case len(urls) > 1:
		return source.Address{}, fmt.Errorf("%s has %d entries for it", ModulesFile, len(urls))
	case urls[0] == "":
		return source.Address{}, fmt.Errorf("its entry in %s has no url", ModulesFile)
	}
	return resolve(parent, urls[0])
}

// resolve reads the address of a submodule. As for git, an address that begins with ./ or ../ is relative to the
// repository itself.
func resolve(parent source.Address, raw string) (source.Address, error) {
	if raw == "." || raw == ".." || strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../") {
		return relative(parent, raw)
	}
	a, err := source.ParseURL(raw)
	if err != nil {
		return source.Address{}, errors.New("its url is no address of a repository")
	}
	if a.Password != "" {
		return source.Address{}, errors.New("its url holds a password: remove it, and change the password")
	}
	if a.Transport == source.HTTP && a.User != "" {
		return source.Address{}, errors.New("its url holds a user: remove it, because the Secret of the source has " +
			"the credentials")
	}
	if a.Transport != parent.Transport || a.Scheme != parent.Scheme || !strings.EqualFold(a.Host, parent.Host) ||
		a.Port != parent.Port {
		return source.Address{}, fmt.Errorf("its url has another scheme, host or port than the source: only "+
			"repositories at %s are read", origin(parent))
	}
	if a.Transport == source.SSH && a.User != parent.User {
		return source.Address{}, fmt.Errorf("its url has another user than the source: only repositories of the user "+
			"%s are read", source.Line(parent.User))
	}
	return a, nil
}

// relative resolves the relative address raw. The path of the parent counts as the directory in which raw begins.
func relative(parent source.Address, raw string) (source.Address, error) {
	if strings.ContainsAny(raw, "?#%\\") || safetext.HasHidden(raw) {
		return source.Address{}, errors.New("its url is relative and has a character that is not allowed in it: ?, " +
			"#, %, \\ or a control character")
	}
	rooted := strings.HasPrefix(parent.Path, "/")
	up := strings.Count(path.Clean("/"+parent.Path), "/")
	for _, part := range strings.Split(raw, "/") {
		switch part {
		case "", ".":
		case "..":
			if up--; up < 0 {
				return source.Address{}, errors.New("its url leads out of the host: it has more .. than the path of " +
					"the source has folders")
			}
		default:
			up++
		}
	}
	to := path.Join("/", parent.Path, raw)
	if to == "/" {
		return source.Address{}, errors.New("its url leads to the root of the host, which is no repository")
	}
	if !rooted {
		to = strings.TrimPrefix(to, "/")
	}
	out := parent
	out.Path, out.User, out.Password = to, "", ""
	if parent.Transport == source.SSH {
		out.User = parent.User
	}
	if again, err := source.ParseURL(out.String()); err != nil || again != out {
		return source.Address{}, errors.New("its url leads to no address of a repository")
	}
	return out, nil
}

// origin names the host of an address.
func origin(a source.Address) string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.Port != "" {
		host += ":" + a.Port
	}
	return a.Scheme + "://" + host
}
