package canary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Allowed is a place that may have values, and why.
type Allowed struct {
	// Place is a pattern of path.Match for the name of the place.
	Place string
	// Mode is the required mode of the file; empty if any is good, such as for an input of the test itself.
	Mode   string
	Reason string
}

// ParseAllowed reads lines of three fields: place, mode in octal or -, reason.
func ParseAllowed(text string) ([]Allowed, error) {
	var out []Allowed
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 { // A reason has several words.
			return nil, fmt.Errorf("line %q: want PLACE MODE REASON", line)
		}
		if fields[1] == "-" {
			fields[1] = ""
		} else if _, err := strconv.ParseUint(fields[1], 8, 16); err != nil {
			return nil, fmt.Errorf("line %q: the mode is no octal number: %w", line, err)
		}
		if _, err := path.Match(fields[0], ""); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		out = append(out, Allowed{fields[0], fields[1], strings.Join(fields[2:], " ")})
	}
	return out, nil
}

// Report collects where values are.
type Report struct {
	finder  *Finder
	allowed []Allowed
	// used has the allowed places that have a value.
	used map[string]bool
	// Places is how many places were searched, and Bytes how much they have.
	Places int
	Bytes  int64
	errs   []error
}

// NewReport returns an empty report.
func NewReport(finder *Finder, allowed []Allowed) *Report {
	return &Report{finder: finder, allowed: allowed, used: map[string]bool{}}
}

// Add searches data of a place. The mode is that of a file; empty for other places.
func (r *Report) Add(place string, data []byte, mode string) {
	r.Places++
	r.Bytes += int64(len(data))
	found, err := r.finder.In(data)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("searching %s: %w", place, err))
	}
	if len(found) == 0 {
		return
	}
	for _, a := range r.allowed {
		if ok, _ := path.Match(a.Place, place); !ok { // ParseAllowed has checked the pattern.
			continue
		}
		r.used[a.Place] = true
		if a.Mode != "" && a.Mode != mode {
			r.errs = append(r.errs, fmt.Errorf("%s has mode %q, want %s, because it has %s", place, mode, a.Mode,
				found[0]))
		}
		return
	}
	r.errs = append(r.errs, fmt.Errorf("%s has %s", place, strings.Join(found, "; ")))
}

// AddTree searches each file below a directory, the names of all files, and the targets of links. A place is the path
// below the directory after a prefix.
func (r *Report) AddTree(root, prefix string) {
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // A program has removed it since.
			return nil
		}
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		place := path.Join(prefix, below)
		r.Add("the name of "+place, []byte(below), "")
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(file)
			if err != nil {
				return err
			}
			r.Add(place, []byte(to), "")
		case d.Type().IsRegular():
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			data, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			r.Add(place, data, fmt.Sprintf("%04o", info.Mode().Perm()))
		}
		return nil
	})
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("searching %s: %w", root, err))
	}
}

// Err returns all places with values that may have none, all wrong modes, and all that could not be searched. An
// allowed place without a value is an error too: the list would be longer than the truth, or the search would be blind
// there.
func (r *Report) Err() error {
	errs := slices.Clone(r.errs)
	for _, a := range r.allowed {
		if !r.used[a.Place] {
			errs = append(errs, fmt.Errorf("%s is allowed (%s), and no value is there", a.Place, a.Reason))
		}
	}
	return errors.Join(errs...)
}
