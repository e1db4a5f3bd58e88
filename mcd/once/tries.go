package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Where it is counted how often a config was begun in vain, for FirstBoot and for Do.
const (
	firstBootTries = host.StateDir + "/firstboot.json"
	doTries        = host.StateDir + "/once.json"
)

// mostTries is how often Do begins a config that takes the machine down or does not boot. Two of them may be power cuts.
const mostTries = 3

// ErrGivenUp tells that a config was begun in vain too often.
var ErrGivenUp = errors.New("it was begun in vain too often")

// tries counts how often a config was begun in vain.
type tries struct {
	Config string `json:"config"`
	// Reboots came up without what was staged.
	Reboots int `json:"reboots"`
	// Interrupted: the machine went down, or the process died, before the steps were done.
	Interrupted int `json:"interrupted,omitempty"`
}

// triesOf reads them. A file that cannot be understood counts none: it is only for patience.
func triesOf(files host.Files, at, config string) (tries, error) {
	none := tries{Config: config}
	text, err := files.Read(at)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	var is tries
	if err != nil {
		return none, fmt.Errorf("reading how often a config was begun in vain: %w", err)
	}
	if json.Unmarshal(text, &is) != nil || is.Config != config {
		return none, nil
	}
	return is, nil
}

// fruitless are those that cost patience: one interruption is taken for a power cut.
func (t tries) fruitless() int { return t.Reboots + max(0, t.Interrupted-1) }

// count returns what a Runner calls when it took a config back: one more is written down.
func count(files host.Files, at string) func(host.Record, error) error {
	return func(rec host.Record, _ error) error {
		t, err := triesOf(files, at, rec.To)
		if err != nil {
			return err
		}
		if rec.Cause == host.Interrupted {
			t.Interrupted++
		} else {
			t.Reboots++
		}
		text, err := json.Marshal(t)
		if err != nil {
			return err
		}
		dir, err := files.Stat(host.StateDir)
		if err == nil && dir.Kind == host.Absent {
			err = files.Mkdir(host.StateDir, host.Entry{Kind: host.Dir, Mode: 0o700})
		}
		if err != nil {
			return err
		}
		return files.Write(at, host.Entry{Kind: host.File, Mode: 0o600}, text)
	}
}

// forgetTries is for a config that is in force.
func forgetTries(files host.Files, at string) error {
	if is, err := files.Stat(at); err != nil || is.Kind == host.Absent {
		return err
	}
	return files.Remove(at)
}

// givenUp is the error for a config that was begun in vain too often; forced, it is begun once more.
func givenUp(files host.Files, config string, forced bool) error {
	t, err := triesOf(files, doTries, config)
	switch {
	case err != nil:
		return err
	case t.Reboots+t.Interrupted < mostTries:
		return nil
	case forced:
		return forgetTries(files, doTries)
	}
	why := fmt.Sprintf("%d times, %v", t.Interrupted, apply.ErrInterrupted)
	if t.Interrupted == 0 {
		why = fmt.Sprintf("%d times, %v", t.Reboots, apply.ErrNotBooted)
	} else if t.Reboots > 0 {
		why += fmt.Sprintf(", and %d times, %v", t.Reboots, apply.ErrNotBooted)
	}
	return fmt.Errorf("%w: %s: %s; see journalctl --list-boots and journalctl -b -1 -e, change the config, or begin it once more with --force", ErrGivenUp, config, why)
}
