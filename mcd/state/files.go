package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Files reads and writes the state files of a host.
type Files struct{ Host host.Host }

// read reads the state at a path. read returns nil if the file does not exist or if a power cut left it incomplete.
func read[T any](f Files, path string) (*T, error) {
	text, err := f.Host.Files.Read(path)
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

// Save writes a value to a path if it has changed. Only root can read the file. The file is durable when Save returns.
func (f Files) Save(ctx context.Context, path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if is, err := f.Host.Files.Read(path); err == nil && bytes.Equal(is, text) {
		return nil
	}
	return f.Write(ctx, path, text)
}

// Write writes a file even if it already has this content, because a process that died may not have flushed it.
func (f Files) Write(ctx context.Context, path string, text []byte) error {
	dir, err := f.Host.Files.Stat(host.StateDir)
	if err == nil && dir.Kind == host.Absent {
		err = f.Host.Files.Mkdir(host.StateDir, host.Entry{Kind: host.Dir, Mode: 0o700})
	}
	if err == nil {
		err = f.Host.Files.Write(path, host.Entry{Kind: host.File, Mode: 0o600}, text)
	}
	if err == nil {
		err = f.Host.Disk.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Remove removes files. Remove ignores files that do not exist.
func (f Files) Remove(ctx context.Context, paths ...string) error {
	there := false
	for _, path := range paths {
		is, err := f.Host.Files.Stat(path)
		if err != nil {
			return fmt.Errorf("removing %s: %w", path, err)
		}
		if is.Kind == host.Absent {
			continue
		}
		if err := f.Host.Files.Remove(path); err != nil {
			return fmt.Errorf("removing %s: %w", path, err)
		}
		there = true
	}
	if !there {
		return nil
	}
	return f.Host.Disk.Flush(ctx)
}

// ForceFile returns the entry at the force file's path. The result forced is true if the next update must run despite
// drift or an earlier rejection.
func (f Files) ForceFile() (is host.Entry, forced bool, err error) {
	if is, err = f.Host.Files.Stat(host.ForcePath); err != nil {
		return is, false, fmt.Errorf("reading %s: %w", host.ForcePath, err)
	}
	// Only a file counts, because a directory with entries could not be removed.
	return is, is.Kind == host.File || is.Kind == host.Link, nil
}

// ServersPath is the file with the addresses and the CA of the machine-config-servers. A daemon that starts without the
// API server uses this file.
const ServersPath = host.StateDir + "/server.json"

// LoadServers reads ServersPath. LoadServers returns nil if the file does not exist.
func LoadServers(files host.Files) ([]byte, error) {
	text, err := files.Read(ServersPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ServersPath, err)
	}
	return text, nil
}

// SaveServers writes ServersPath. Only root can read the file.
func SaveServers(ctx context.Context, h host.Host, text []byte) error {
	return Files{h}.Write(ctx, ServersPath, text)
}

// Rejection returns the stored rejection, final or not; nil for none.
func (f Files) Rejection() (*Rejection, error) { return read[Rejection](f, RejectionPath) }

// ConfirmRejection records that the machine reached the API server with the old config.
func (f Files) ConfirmRejection(ctx context.Context, v Rejection) error {
	if !v.Unconfirmed {
		return nil
	}
	v.Unconfirmed = false
	return f.Save(ctx, RejectionPath, v)
}
