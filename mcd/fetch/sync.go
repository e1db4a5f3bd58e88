package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// progressEvery is how often a download calls the progress function.
const progressEvery = 15 * time.Second

// ErrStopSync is the error with which a progress function ends a download.
var ErrStopSync = ErrStop

// SyncError is the error for remote files or an OS image that the node cannot download now. The node waits and is not
// drained.
type SyncError struct {
	// Config is the text about the config.
	Config string
	// Err has the addresses and the reasons.
	Err error
}

// Error names the config, the addresses and the reasons.
func (e *SyncError) Error() string {
	return fmt.Sprintf("waiting for the content of %s before the node is drained: %v", e.Config, e.Err)
}

// Unwrap returns the reasons.
func (e *SyncError) Unwrap() error { return e.Err }

// SyncFetcher returns what brings remote files onto a machine; nil if the host has no content store.
func SyncFetcher(h host.Host, web func(Access) Web) *Fetcher {
	store, can := h.Contents.(interface {
		Store
		Partials
	})
	if !can {
		return nil
	}
	return &Fetcher{Files: h.Files, Store: store, Partials: store, Web: web}
}

// Way is a change from one config to another.
type Way struct{ From, To plan.Config }

// Fetch downloads the remote files that a config needs and the machine lacks, and stores those of the config in force
// for a rollback. Fetch returns whether it stored any. The error is an *Error, ErrStop or that of the context.
func Fetch(ctx context.Context, f *Fetcher, way Way, progress func(text string) error) (changed bool, _ error) {
	adopted, err := f.Adopt(way.From.Config)
	if err != nil {
		return adopted, &SyncError{way.To.Name, err}
	}
	last := time.Now()
	fetched, err := f.Fetch(ctx, way.To.Config, func(p Progress) error {
		if time.Since(last) < progressEvery {
			return nil
		}
		last = time.Now()
		return progress(progressText(p))
	})
	if err == nil || errors.Is(err, ErrStopSync) || ctx.Err() != nil {
		return adopted || fetched, err
	}
	return adopted || fetched, &SyncError{way.To.Name, err}
}

func progressText(p Progress) string {
	text := fmt.Sprintf("downloading %s before the node is drained: %d MiB", p.Address, p.Have>>20)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %d MiB", p.Total>>20)
	}
	return text
}

// Resolve returns a config in which each remote file that the machine has is named as the machine names contents.
func (s *Syncer) Resolve(c machineconfig.Config) machineconfig.Config { return s.Fetcher().Resolve(c) }

// Keep stores the contents of the config in force, and removes those that no rollback needs.
func Keep(f *Fetcher, at plan.Config) error {
	if _, err := f.Adopt(at.Config); err != nil {
		return err
	}
	return f.Confirm(at.Name, at.Config)
}
