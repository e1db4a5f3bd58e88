package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// registry is where the lab puts images: an OSTree repository with a ref for each.
const registry = "/run/registry"

// remote is the registry of a host that has no such directory: an OSTree remote, with the same refs.
const remote = "lab"

// staged has the kernel arguments of the staged deployment, which no boot loader entry names yet.
const staged = "/run/lab-staged.json"

// refOf is the ref under which the registry holds an image.
func refOf(image string) string {
	sum := sha256.Sum256([]byte(image))
	return "image/" + hex.EncodeToString(sum[:8])
}

// deployment is one of the list, the first being what boots next.
type deployment struct {
	os, checksum     string
	serial           int
	booted, isStaged bool
	// image is the reference in the origin.
	image string
	kargs []string
}

// line of ostree admin status: a star for what runs, the name of the OS, commit and serial, what it is.
var line = regexp.MustCompile(`^([* ]) (\S+) ([0-9a-f]{64})\.(\d+)(?: \((\w+)\))?`)

// deployments asks ostree, and reads the rest from where ostree keeps it.
func deployments() ([]deployment, error) {
	text, err := ostree("admin", "status")
	if err != nil {
		return nil, err
	}
	loader, err := loaderKargs()
	if err != nil {
		return nil, err
	}
	var all []deployment
	for l := range strings.Lines(text) {
		m := line.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		serial, err := strconv.Atoi(m[4])
		if err != nil {
			return nil, err
		}
		d := deployment{os: m[2], checksum: m[3], serial: serial, booted: m[1] == "*", isStaged: m[5] == "staged"}
		if d.image, err = originOf(d.dir()); err != nil {
			return nil, err
		}
		d.kargs = loader[d.dir()]
		if d.isStaged {
			if d.kargs, err = stagedKargs(); err != nil {
				return nil, err
			}
		}
		all = append(all, d)
	}
	if !slices.ContainsFunc(all, func(d deployment) bool { return d.booted }) {
		return nil, errors.New("this system was not booted via libostree")
	}
	return all, nil
}

// dir of a deployment.
func (d deployment) dir() string {
	return fmt.Sprintf("/sysroot/ostree/deploy/%s/deploy/%s.%d", d.os, d.checksum, d.serial)
}

// originOf reads the reference that a deployment was made of.
func originOf(dir string) (string, error) {
	text, err := os.ReadFile(dir + ".origin")
	if err != nil {
		return "", err
	}
	for l := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(l), "container-image-reference="); ok {
			return value, nil
		}
	}
	return "", nil
}

// loaderKargs are the kernel arguments of the boot loader's entries, by deployment.
func loaderKargs() (map[string][]string, error) {
	entries, err := filepath.Glob("/boot/loader/entries/*.conf")
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err != nil {
			return nil, err
		}
		for l := range strings.Lines(string(text)) {
			options, ok := strings.CutPrefix(strings.TrimSpace(l), "options ")
			if !ok {
				continue
			}
			var dir string
			list := slices.DeleteFunc(split(options), func(a string) bool {
				at, isLink := strings.CutPrefix(a, "ostree=")
				if isLink {
					dir = "/sysroot" + at
				}
				return isLink
			})
			if dir, err = filepath.EvalSymlinks(dir); err != nil {
				return nil, err
			}
			found[dir] = list
		}
	}
	return found, nil
}

// split parts at blanks outside double quotes.
func split(text string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

func stagedKargs() (list []string, err error) {
	text, err := os.ReadFile(staged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("something is staged, and not by this program")
	}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	return list, err
}

// stage makes a commit the next boot, with exactly these kernel arguments.
func stage(osname, commit, image string, kargs []string) error {
	origin, err := os.CreateTemp("", "origin")
	if err != nil {
		return err
	}
	defer os.Remove(origin.Name()) //nolint:errcheck // in a directory that the boot empties
	text, err := json.Marshal(kargs)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(origin, "[origin]\nrefspec=%s\ncontainer-image-reference=%s\n", refOf(image),
		image); err != nil {
		return err
	}
	if err := errors.Join(origin.Close(), os.WriteFile(staged, text, 0o600)); err != nil {
		return err
	}
	args := []string{"admin", "deploy", "--stage", "--os=" + osname, "--origin-file=" + origin.Name(), "--karg-none"}
	for _, a := range kargs {
		args = append(args, "--karg-append="+a)
	}
	if _, err = ostree(append(args, commit)...); err == nil {
		fmt.Println("Staging deployment...done")
	}
	return err
}

// status prints the list as rpm-ostree does.
func status(all []deployment) error {
	type entry struct {
		ID        string   `json:"id"`
		OS        string   `json:"osname"`
		Checksum  string   `json:"checksum"`
		Serial    int      `json:"serial"`
		Booted    bool     `json:"booted"`
		Staged    bool     `json:"staged"`
		Reference string   `json:"container-image-reference,omitempty"`
		Packages  []string `json:"requested-packages"`
		Removals  []string `json:"requested-base-removals"`
	}
	var s struct {
		Deployments []entry `json:"deployments"`
		Transaction *string `json:"transaction"`
		Cached      *string `json:"cached-update"`
	}
	for _, d := range all {
		s.Deployments = append(s.Deployments, entry{
			ID: fmt.Sprintf("%s-%s.%d", d.os, d.checksum, d.serial), OS: d.os, Checksum: d.checksum, Serial: d.serial,
			Booted: d.booted, Staged: d.isStaged, Reference: d.image, Packages: []string{}, Removals: []string{},
		})
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		_, err = fmt.Println(string(text))
	}
	return err
}
