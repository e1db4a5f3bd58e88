package fromgit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bunsen-os/bunsen/source"
)

// good is an applied commit and the parameters that selected it. A server with other parameters selects another commit.
type good struct {
	URL, Ref, Path, Trust string
	Picked                source.Picked
}

// lastGood is the file that stores the last applied commit.
type lastGood string

// read returns the commit; ok is false if there is none.
func (l lastGood) read() (g good, ok bool, err error) {
	raw, err := os.ReadFile(string(l))
	if errors.Is(err, fs.ErrNotExist) {
		return good{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &g)
	}
	if err != nil {
		return good{}, false, fmt.Errorf("reading the last good commit from %s: %w", string(l), err)
	}
	return g, true, nil
}

// write replaces the file. After a crash, the file contains the new commit or the previous one.
func (l lastGood) write(g good) error {
	raw, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the last good commit: %w", err)
	}
	temporary := string(l) + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing the last good commit: %w", err)
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temporary, string(l))
	}
	if err != nil {
		return fmt.Errorf("writing the last good commit: %w", err)
	}
	return nil
}
