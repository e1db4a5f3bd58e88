package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// source is a function that returns the contents that a step writes, by their digest.
type source func(host.Digest) ([]byte, error)

// keep stores all data that the steps replace, so that a rollback needs nothing else. The returned source reads from
// the contents of the plan, or from the store for files that are moved or restored.
func (r Runner) keep(ctx context.Context, steps []host.Step, contents map[host.Digest][]byte) (source, error) {
	var old []host.Old
	kept := map[host.Digest]bool{"": true, host.DigestOf(nil): true}
	for _, s := range steps {
		if !utf8.ValidString(s.Before.Entry.Target) {
			return nil, fmt.Errorf("keeping %s: it is a link whose target is not text, which the journal cannot "+
				"hold: move it away", s.Target)
		}
		d := digest(s.Before)
		switch {
		case s.IsPath() && s.Before.Entry.Kind == host.File:
			downloaded, err := r.isDownloaded(d)
			if err != nil {
				return nil, err
			}
			old = append(old, host.Old{Path: s.Target, Digest: d, Downloaded: downloaded})
		case !kept[d]:
			password, err := replaced(ctx, r.Host, s)
			if err != nil {
				return nil, fmt.Errorf("keeping the password of %s: %w", s.Target, err)
			}
			old = append(old, host.Old{Digest: d, Contents: password})
		}
		kept[d] = true
	}
	for _, s := range steps {
		d := digest(s.After)
		if kept[d] || contents[d] != nil {
			continue
		}
		if downloaded, err := r.isDownloaded(d); err != nil || !downloaded {
			return nil, errors.Join(err, fmt.Errorf("%s: its contents are missing", s))
		}
	}
	if err := r.Host.Store.Keep(old); err != nil {
		return nil, fmt.Errorf("keeping what is replaced: %w", err)
	}
	return func(d host.Digest) ([]byte, error) {
		if now, ok := contents[d]; ok {
			return now, nil
		}
		return r.stored(d)
	}, nil
}

// isDownloaded reports whether the host's content store has contents.
func (r Runner) isDownloaded(d host.Digest) (bool, error) {
	if r.Host.Contents == nil || d == "" || d == host.DigestOf(nil) {
		return false, nil
	}
	_, has, err := r.Host.Contents.Size(d)
	var at *fs.PathError
	if errors.As(err, &at) { // The path has the digest, and the contents may be a secret.
		err = at.Err
	}
	if err != nil {
		return false, fmt.Errorf("looking for downloaded contents: %w", err)
	}
	return has, nil
}

// stored returns the contents for the rollback from the store.
func (r Runner) stored(d host.Digest) ([]byte, error) {
	if d == "" || d == host.DigestOf(nil) {
		return nil, nil
	}
	contents, err := r.Host.Store.Get(d)
	if err != nil {
		// without the digest, because the contents may be secret
		return nil, fmt.Errorf("reading kept contents: %w", err)
	}
	return contents, nil
}

// digest returns the digest of the stored data of a value: a file's contents, or the hash of a user's password. digest
// returns "" if there is no such data.
func digest(v host.Value) host.Digest {
	if v.User.There {
		return v.User.Password
	}
	return v.Entry.Digest
}

// replaced reads the password hash of a user whom a step changes.
func replaced(ctx context.Context, h host.Host, s host.Step) ([]byte, error) {
	_, password, err := h.Passwd.User(ctx, s.Target)
	if err == nil && host.DigestOf(password) != digest(s.Before) {
		err = errors.New("it has changed since the observation")
	}
	return password, err
}
