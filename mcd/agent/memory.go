package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// What the agent keeps on disk beside the journal, for root only.
const (
	// VerdictPath is the config that this machine did not live with.
	VerdictPath = host.StateDir + "/rejected.json"
	// TaskPath is the update under way: its config, which holds secrets, and all else that is needed to finish it alone.
	TaskPath = host.StateDir + "/desired.json"
)

// task is the update under way, as it was when the cluster was last heard of.
type task struct {
	// Config desired, with the annotations that name its commit.
	Config mcfgv1.MachineConfig `json:"config"`
	// Asked is who asked for it now; zero where the controller did not say.
	Asked v1alpha1.Requester `json:"asked,omitzero"`
	// Rules of the cluster.
	Rules plan.Rules `json:"rules"`
	// Node as last read.
	Node protocol.Assignment `json:"node"`
	// Before is what was well right before the first step.
	Before health.Before `json:"before"`
	// Attempt counts how often its steps were begun.
	Attempt int `json:"attempt,omitempty"`
	// Looks counts how often it was begun to look whether the machine is healthy after this attempt, and not ended.
	Looks int `json:"looks,omitempty"`
}

// attempt is the one that was begun last.
func (t *task) attempt() attempt { return attempt{t.Config.Name, t.Attempt} }

// memory keeps such things.
type memory struct{ host host.Host }

// recall reads what is kept at a path; nil for nothing, and for a file that a power cut left empty or in pieces.
func recall[T any](m memory, path string) (*T, error) {
	text, err := m.host.Files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	kept := new(T)
	if json.Unmarshal(text, kept) != nil {
		return nil, nil
	}
	return kept, nil
}

// keep writes what is kept at a path, for root only; it is durable when it returns.
func (m memory) keep(ctx context.Context, path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if is, err := m.host.Files.Read(path); err == nil && bytes.Equal(is, text) {
		return nil
	}
	return m.put(ctx, path, text)
}

// put writes it, even where it is there: a process that died may have left it half on its way to the disk.
func (m memory) put(ctx context.Context, path string, text []byte) error {
	dir, err := m.host.Files.Stat(host.StateDir)
	if err == nil && dir.Kind == host.Absent {
		err = m.host.Files.Mkdir(host.StateDir, host.Entry{Kind: host.Dir, Mode: 0o700})
	}
	if err == nil {
		err = m.host.Files.Write(path, host.Entry{Kind: host.File, Mode: 0o600}, text)
	}
	if err == nil {
		err = m.host.Disk.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// forget removes what is kept at paths; nothing there is no error.
func (m memory) forget(ctx context.Context, paths ...string) error {
	there := false
	for _, path := range paths {
		is, err := m.host.Files.Stat(path)
		if err != nil {
			return fmt.Errorf("forgetting %s: %w", path, err)
		}
		if is.Kind == host.Absent {
			continue
		}
		if err := m.host.Files.Remove(path); err != nil {
			return fmt.Errorf("forgetting %s: %w", path, err)
		}
		there = true
	}
	if !there {
		return nil
	}
	return m.host.Disk.Flush(ctx)
}

// task under way, of a given config; nil for another or none. The name "" takes any.
func (m memory) task(config string) (*task, error) {
	t, err := recall[task](m, TaskPath)
	if err != nil || t == nil || t.Config.Name == "" || config != "" && t.Config.Name != config {
		return nil, err
	}
	return t, nil
}

// outdate forgets a task that is not what is desired any more: nobody is to finish it alone.
func (m memory) outdate(ctx context.Context, desired string) error {
	t, err := m.task("")
	if err != nil || t == nil || t.Config.Name == desired {
		return err
	}
	return m.forget(ctx, TaskPath)
}

// force is what is at the force file's path, and whether it says that a person wants the next update to go ahead, whatever
// is on disk and whatever was found before.
func (m memory) force() (is host.Entry, forced bool, err error) {
	if is, err = m.host.Files.Stat(host.ForcePath); err != nil {
		return is, false, fmt.Errorf("looking for %s: %w", host.ForcePath, err)
	}
	return is, is.Kind == host.File || is.Kind == host.Link, nil // a directory with something in it would never go away
}
