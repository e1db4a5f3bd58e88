package adopt

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/internal/membership"
)

// Begin describes a repository to begin with.
type Begin struct {
	// OS is the operating system of the machines: one of OSNames.
	OS string
	// Pools are custom pools, besides worker and master.
	Pools []string
	// Keys may log in as User, in the form of authorized_keys. An empty User is the one of CoreOS and Flatcar.
	Keys []string
	User string
	// URL of the repository; empty if unknown.
	URL string
	// CI are the files that check a pull request, by their paths.
	CI map[string][]byte
}

// OSNames returns the names for Begin.OS: ID of os-release(5), or ID and VARIANT_ID.
func OSNames() (out []string) {
	for _, s := range distribution.Systems() {
		for _, r := range s.Releases {
			out = append(out, osName(r))
		}
	}
	slices.Sort(out)
	return out
}

func osOf(name string) (distribution.OS, bool) {
	for _, s := range distribution.Systems() {
		for _, r := range s.Releases {
			if osName(r) == name {
				return s, true
			}
		}
	}
	return distribution.OS{}, false
}

func osName(r distribution.Release) string {
	if r.Variant == "" {
		return r.ID
	}
	return r.ID + "-" + r.Variant
}

var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

//go:embed all:new
var newTree embed.FS

// NewRepository returns the files of a repository to begin with. It renders for worker and master. The error names what
// is wrong with the description.
func NewRepository(b Begin) (map[string][]byte, error) {
	system, known := osOf(b.OS)
	if !known {
		return nil, fmt.Errorf("the operating system %q is not known: name one of %s", b.OS,
			strings.Join(OSNames(), ", "))
	}
	for _, pool := range b.Pools {
		if problems := validation.IsDNS1123Label(pool); len(problems) > 0 {
			return nil, fmt.Errorf("%q cannot be the name of a pool: %s", pool, strings.Join(problems, "; "))
		}
		if pool == membership.Worker || pool == membership.Master {
			return nil, fmt.Errorf("every cluster has the pool %s; name only pools of your own", pool)
		}
	}
	if twice := slices.Sorted(slices.Values(b.Pools)); len(slices.Compact(slices.Clone(twice))) < len(twice) {
		return nil, fmt.Errorf("a pool is named twice: %s", strings.Join(twice, ", "))
	}
	if b.User != "" && (len(b.Keys) == 0 || !userName.MatchString(b.User)) {
		return nil, fmt.Errorf("%q cannot get SSH keys: name a user of Linux, and at least one key", b.User)
	}
	if len(b.Keys) > 0 && b.User == "" {
		if b.User = "core"; system.KeysReader == "" {
			return nil, fmt.Errorf("name the user who may log in with the SSH keys: images of %s have no common one",
				system.Name)
		}
	}
	data := struct {
		Begin
		Variant, Version string
	}{b, "fcos", fcosVersion}
	if slices.Contains(system.Releases, distribution.Release{ID: "flatcar"}) {
		data.Variant, data.Version = "flatcar", flatcarVersion
	}
	out := map[string][]byte{}
	err := fs.WalkDir(newTree, "new", func(name string, d fs.DirEntry, err error) error {
		to := templated(name)
		switch {
		case err != nil || d.IsDir():
			return err
		case to == "README.md", to == "base/10-ssh.bu" && len(b.Keys) == 0:
			return nil
		case to == "cluster/pool.yaml":
			for _, pool := range b.Pools {
				if out["cluster/pool-"+pool+".yaml"], err = execute(name, pool); err != nil {
					return err
				}
			}
			return nil
		}
		out[to], err = execute(name, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, addFrame(out, system.Name, b.URL, b.CI)
}

// templated returns the path of the file that a template becomes.
func templated(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "new/"), ".tmpl")
}

func execute(name string, data any) ([]byte, error) {
	text, err := newTree.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the template of %s: %w", templated(name), err)
	}
	t, err := template.New(path.Base(name)).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading the template of %s: %w", templated(name), err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("writing %s: %w", templated(name), err)
	}
	return b.Bytes(), nil
}

// Frame adds to an imported repository what a new one has around its documents: the README, the settings of editors,
// and the checks of pull requests.
func Frame(files, ci map[string][]byte) error { return addFrame(files, "", "", ci) }

// addFrame: system is the name of the operating system, empty for several or an unknown one.
func addFrame(files map[string][]byte, system, url string, ci map[string][]byte) error {
	folders := map[string]string{}
	for name := range files {
		top, rest, _ := strings.Cut(name, "/")
		pool, _, isPool := strings.Cut(rest, "/")
		switch {
		case top == "base":
			folders["base/"] = "what several pools get"
		case top == "cluster":
			folders["cluster/"] = "pools, how carefully commits are rolled out, and what nodes do for a change"
		case top == "pools" && isPool:
			folders["pools/"+pool+"/"] = "what pool " + pool + " gets"
		case top == asideDir:
			folders[asideDir+"/"] = "what nobody has decided about yet; it reaches no machine"
		}
	}
	width := 0
	for folder := range folders {
		width = max(width, len(folder))
	}
	var lines []string
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		lines = append(lines, fmt.Sprintf("    %-*s   %s", width, folder, folders[folder]))
	}
	for _, name := range []string{"README.md", ".editorconfig", ".vscode/extensions.json", ".vscode/settings.json"} {
		text, err := execute("new/"+name+".tmpl", struct {
			Name, URL string
			Folders   []string
			CI        bool
		}{system, url, lines, len(ci) > 0})
		if err != nil {
			return err
		}
		files[name] = text
	}
	maps.Copy(files, ci)
	return nil
}
