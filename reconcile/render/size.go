package render

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// The limits of a cluster for one object, in bytes. etcd accepts no request larger than MaxSize, and the API server
// accepts no object with annotations larger than maxAnnotations.
const (
	// MaxSize is the maximum size of a rendered config as an object, including its metadata.
	MaxSize = machineconfig.MaxContentObject
	// WarnSize is the size from which Rendered.Warnings contains a warning, because each node, the server and the
	// controller store the whole config.
	WarnSize = 512 << 10

	maxAnnotations = 256 << 10
	// metadata is the approximate size of an object without its spec: the commit, the owner, the managed fields.
	metadata = 8 << 10
	// perInput is the size that each input adds to an object, without the input's name: a digest in an annotation,
	// quoted twice.
	perInput = 84
)

// ErrTooLarge is in the chain of an error about a config that is too large to store.
var ErrTooLarge = errors.New("the rendered config is too large")

// tooLargeError has the text of another error.
type tooLargeError struct{ error }

// Is reports whether the target is ErrTooLarge.
func (tooLargeError) Is(target error) bool { return target == ErrTooLarge }

// Unwrap returns the error with the text.
func (e tooLargeError) Unwrap() error { return e.error }

// guardSize refuses a spec that is too large to store, and warns about a large spec. The texts name the largest entries
// and their inputs. With largeFiles, the files that can move have left the spec.
func guardSize(r Rendered, largeFiles bool) (warnings []string, err error) {
	size, inputs, err := measure(r)
	if err != nil {
		return nil, err
	}
	if inputs+metadata > maxAnnotations {
		return nil, fmt.Errorf("the rendered config of pool %s consists of %d MachineConfigs. Their list needs %d "+
			"bytes, and an annotation can have %d: combine documents", r.Pool, len(r.Inputs), inputs,
			maxAnnotations-metadata)
	}
	switch {
	case size > MaxSize:
		err = fmt.Errorf("the rendered config of pool %s has %d bytes with its metadata, and a cluster stores at most "+
			"%d. Units, and files with secrets or facts, cannot go to the content store. Make these parts smaller: %s",
			r.Pool, size, MaxSize, largest(r))
		if !largeFiles {
			err = fmt.Errorf("%w. For other files: %w", err, machineconfig.ErrNoContentStore)
		}
		return nil, tooLargeError{err}
	case size > WarnSize:
		return []string{fmt.Sprintf("the rendered config of pool %s has %d bytes with its metadata, %d %% of the "+
			"most that a cluster stores; the largest are %s", r.Pool, size, size*100/MaxSize, largest(r))}, nil
	}
	return nil, nil
}

// fit moves files of a config that is too large for an object to the content store.
func fit(r Rendered) (Rendered, error) {
	size, _, err := measure(r)
	if err != nil {
		return r, err
	}
	config, moved, err := machineconfig.MoveLargeFiles(r.Config, size)
	if err != nil {
		return r, fmt.Errorf("rendering pool %s: %w", r.Pool, err)
	}
	if len(moved) == 0 {
		return r, nil
	}
	r.Config, r.Contents = config, moved
	if r.Spec, err = config.Spec(); err != nil {
		return r, fmt.Errorf("rendering pool %s: %w", r.Pool, err)
	}
	return r, nil
}

// measure returns the size of a config as an object, and the part of it that its list of inputs needs.
func measure(r Rendered) (size, inputs int, err error) {
	spec := r.Spec
	spec.Config.Raw = []byte("{}") // It is canonical JSON already, and most of the size.
	text, err := json.Marshal(spec)
	if err != nil {
		return 0, 0, fmt.Errorf("measuring the rendered config of pool %s: %w", r.Pool, err)
	}
	for _, name := range r.Inputs {
		inputs += perInput + len(name)
	}
	return len(text) - len(spec.Config.Raw) + len(r.Spec.Config.Raw) + inputs + metadata, inputs, nil
}

// sized is an entry with the size of its contents in the config.
type sized struct {
	entry
	bytes int
}

// largest returns a text with the five largest files and units, and the inputs that set them.
func largest(r Rendered) string {
	var top []sized
	keep := func(s sized) {
		if len(top) == 5 && compareSized(top[4], s) < 0 {
			return
		}
		at, _ := slices.BinarySearchFunc(top, s, compareSized)
		top = slices.Insert(top, at, s)
		top = top[:min(5, len(top))]
	}
	for _, f := range r.Config.Ignition.Storage.Files {
		if f.Contents.Source != nil {
			keep(sized{entry{disruption.KindFile, f.Path}, len(*f.Contents.Source)})
		}
	}
	for _, u := range r.Config.Ignition.Systemd.Units {
		s := sized{entry{disruption.KindUnit, u.Name}, 0}
		if u.Contents != nil {
			s.bytes = len(*u.Contents)
		}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				s.bytes += len(*d.Contents)
			}
		}
		keep(s)
	}
	parts := make([]string, len(top))
	for i, s := range top {
		parts[i] = fmt.Sprintf("%s %s (%d bytes, from MachineConfig %s)", s.kind, s.name, s.bytes,
			r.book.lastOf(s.entry))
	}
	return strings.Join(parts, ", ")
}

// compareSized orders larger entries first.
func compareSized(a, b sized) int { return cmp.Or(b.bytes-a.bytes, cmp.Compare(a.name, b.name)) }
