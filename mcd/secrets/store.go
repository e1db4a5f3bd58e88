package secrets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// Source has the secrets of configs.
type Source interface {
	// Secrets reads the secrets of a rendered config. The content is not checked. The error wraps report.ErrNoSecrets
	// if the source has none for this node.
	Secrets(ctx context.Context, config string) (v1alpha1.NodeSecrets, error)
}

// WaitError reports that the node waits for the secrets of a config. The daemon asks again, without a limit.
type WaitError struct {
	// Config is the name of the rendered config, with the revision of its secrets.
	Config string
	cause  error
}

// Error names the config and why its secrets are not there.
func (e *WaitError) Error() string {
	return fmt.Sprintf("waiting for the secrets of %s: %v", e.Config, e.cause)
}

// Unwrap returns why the secrets are not there.
func (e *WaitError) Unwrap() error { return e.cause }

// Is reports that the error is report.ErrUnreachable, so that the daemon asks again.
func (e *WaitError) Is(target error) bool { return target == report.ErrUnreachable }

// Store has the secrets of one machine's configs.
type Store struct {
	// Host is the machine.
	Host host.Host
	// Source has the secrets.
	Source Source
	// Log gets a line when the contents come from the machine itself.
	Log *slog.Logger
}

// Desired returns the desired config with the contents of its secrets. A config without a revision has no contents, and
// Desired leaves out its files with secrets. The config inForce is the config in force. The error is a *WaitError if
// the contents are not there yet.
func (s Store) Desired(ctx context.Context, c plan.Config, inForce string) (plan.Config, error) {
	paths, err := PathsOf(c)
	if err != nil {
		return c, err
	}
	if !hasSecrets(c, paths) {
		return Resolve(c, nil)
	}
	kept, err := s.load()
	if err != nil {
		return c, err
	}
	contents, known := kept.Known(c.Name, paths)
	if !known {
		if contents, err = s.fetch(ctx, c, paths); err != nil {
			return c, &WaitError{c.Name, err}
		}
		if err := s.save(ctx, kept.With(c.Name, contents, inForce)); err != nil {
			return c, err
		}
	}
	return Resolve(c, contents)
}

// InForce returns the config in force with the contents of its secrets. If the machine's copy does not have
// the contents, and the servers no longer have them, the files on the machine are what the config requires. The error
// is a *WaitError if a server may have them later.
func (s Store) InForce(ctx context.Context, c plan.Config) (plan.Config, error) {
	paths, err := PathsOf(c)
	if err != nil {
		return c, err
	}
	if !hasSecrets(c, paths) {
		return Resolve(c, nil)
	}
	kept, err := s.load()
	if err != nil {
		return c, err
	}
	contents, known := kept.Contents[c.Name]
	if !known {
		contents, err = s.fetch(ctx, c, paths)
		if err != nil && !errors.Is(err, report.ErrNoSecrets) && !errors.As(err, new(*RevisionError)) {
			return c, &WaitError{c.Name, err}
		}
		if err != nil {
			s.Log.Warn("no server has the secrets of the config in force any more; taking the files of this machine "+
				"as its secrets", "config", c.Name, "err", err)
			contents = s.fromDisk(paths)
		}
		if err := s.save(ctx, kept.With(c.Name, contents, c.Name)); err != nil {
			return c, err
		}
	}
	return Resolve(c, contents)
}

// hasSecrets reports whether a config has contents of secrets.
func hasSecrets(c plan.Config, paths []string) bool {
	return len(paths) > 0 && v1alpha1.ParseConfigVersion(c.Name).Secrets != ""
}

// Confirm records that a config is in force, and removes the contents that neither this config nor the one before it
// needs.
func (s Store) Confirm(ctx context.Context, at string) error {
	is, err := s.Host.Files.Stat(Path)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", Path, err)
	}
	if is.Kind == host.Absent {
		return nil
	}
	kept, err := s.load()
	if err != nil {
		return err
	}
	if kept = kept.Confirmed(at); kept.IsEmpty() {
		return s.files().Remove(ctx, Path)
	}
	return s.save(ctx, kept)
}

func (s Store) files() state.Files { return state.Files{Host: s.Host} }

// load reads the machine's copy. A file that another program made does not count.
func (s Store) load() (Copy, error) {
	is, err := s.Host.Files.Stat(Path)
	if err != nil {
		return Copy{}, fmt.Errorf("looking at %s: %w", Path, err)
	}
	if !isPrivate(is) {
		if is.Kind != host.Absent {
			s.Log.Warn("ignoring the copy of secrets, because it is not a file of root with mode 0600", "path",
				Path)
		}
		return Copy{}, nil
	}
	text, err := s.Host.Files.Read(Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Copy{}, fmt.Errorf("reading %s: %w", Path, err)
	}
	return ParseCopy(text), nil
}

// isPrivate reports whether only root can read and write a file.
func isPrivate(e host.Entry) bool {
	return e.Kind == host.File && e.Mode == 0o600 && e.Owner == host.Owner{}
}

// save writes the machine's copy. It is durable when save returns.
func (s Store) save(ctx context.Context, c Copy) error {
	is, err := s.Host.Files.Stat(Path)
	if err == nil && is.Kind != host.Absent && !isPrivate(is) { // Save keeps a file with the same content.
		err = s.files().Remove(ctx, Path)
	}
	if err != nil {
		return fmt.Errorf("replacing %s: %w", Path, err)
	}
	return s.files().Save(ctx, Path, c)
}

// fetch reads the contents of a config's secrets from the source.
func (s Store) fetch(ctx context.Context, c plan.Config, paths []string) (Contents, error) {
	answer, err := s.Source.Secrets(ctx, v1alpha1.ParseConfigVersion(c.Name).Config)
	if err != nil {
		return nil, err
	}
	return Check(answer, c.Name, paths)
}

// fromDisk returns the contents of those files that exist on the machine.
func (s Store) fromDisk(paths []string) Contents {
	out, left := Contents{}, v1alpha1.MaxSecretBytes
	for _, p := range paths {
		is, err := s.Host.Files.Stat(p)
		if err != nil || is.Kind != host.File {
			continue
		}
		text, err := s.Host.Files.Read(p)
		if err != nil || len(text) > left {
			continue
		}
		left -= len(text)
		out[p] = text
	}
	return out
}
