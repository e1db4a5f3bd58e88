package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bunsen-os/bunsen/source"
)

// good is a commit that was taken, and what it was asked for by: another question has another answer.
type good struct {
	URL, Ref, Path, Trust string
	Picked                source.Picked
}

// lastGood is a file that says which commit was taken last.
type lastGood string

// read returns the commit; ok is false where there is none yet.
func (l lastGood) read() (g good, ok bool, err error) {
	raw, err := os.ReadFile(string(l))
	if errors.Is(err, fs.ErrNotExist) {
		return good{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &g)
	}
	if err != nil {
		return good{}, false, fmt.Errorf("reading %s, which says what the last good commit was: %w", string(l), err)
	}
	return g, true, nil
}

// write replaces the file: after a crash it says this commit, or the one before.
func (l lastGood) write(g good) error {
	raw, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return fmt.Errorf("writing which commit is the last good one: %w", err)
	}
	half := string(l) + ".new"
	f, err := os.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing which commit is the last good one: %w", err)
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(half, string(l))
	}
	if err != nil {
		return fmt.Errorf("writing which commit is the last good one: %w", err)
	}
	return nil
}
