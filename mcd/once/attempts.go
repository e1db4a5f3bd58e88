package once

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// The files that count the attempts of FirstBoot and of Run.
const (
	firstBootAttempts = host.StateDir + "/firstboot.json"
	runAttempts       = host.StateDir + "/once.json"
)

// ErrGivenUp reports that too many attempts to apply a config were interrupted or did not boot.
var ErrGivenUp = errors.New("the daemon stops retrying the config")

// loadAttempts reads the count of a config.
func loadAttempts(files host.Files, at, config string) (state.Attempts, error) {
	text, err := files.Read(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state.Attempts{}, fmt.Errorf("reading the count of attempts: %w", err)
	}
	return state.ParseAttempts(text, config), nil
}

// countAttempt returns a function that counts a rolled back attempt in a file. The function is for
// apply.Runner.OnRejected.
func countAttempt(files host.Files, at string) func(host.Record, error) error {
	return func(rec host.Record, _ error) error {
		count, err := loadAttempts(files, at, rec.To)
		if err != nil {
			return err
		}
		text, err := count.Add(rec.Cause).Encode(rec.To)
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

// clearAttempts removes a count.
func clearAttempts(files host.Files, at string) error {
	if is, err := files.Stat(at); err != nil || is.Kind == host.Absent {
		return err
	}
	return files.Remove(at)
}

// checkAttempts returns ErrGivenUp if too many attempts to apply the config failed. If forced is true, checkAttempts
// clears the count instead.
func checkAttempts(files host.Files, config string, forced bool) error {
	count, err := loadAttempts(files, runAttempts, config)
	if err != nil || !count.IsExhausted() {
		return err
	}
	if forced {
		return clearAttempts(files, runAttempts)
	}
	var why []string
	if count.Interrupted > 0 {
		why = append(why, fmt.Sprintf("%d times, %v", count.Interrupted, apply.ErrInterrupted))
	}
	if count.NotBooted > 0 {
		why = append(why, fmt.Sprintf("%d times, %v", count.NotBooted, apply.ErrNotBooted))
	}
	return fmt.Errorf("%w: %s: %s; see journalctl --list-boots and journalctl -b -1 -e, change the config, or retry "+
		"it with --force", ErrGivenUp, config, strings.Join(why, ", and "))
}
