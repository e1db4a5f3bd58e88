package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// progressEvery is how often a download calls the progress function.
const progressEvery = 15 * time.Second

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

// NewFetcher returns what brings remote files onto a machine; nil if the host has no content store.
func NewFetcher(h host.Host, web func(Access) Web) *Fetcher {
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

// FetchFiles downloads the remote files that a config needs and the machine lacks, and stores those of the config in
// force for a rollback. It returns whether it stored any. The error is a *SyncError, ErrStop or that of the context.
func (s *Syncer) FetchFiles(ctx context.Context, way Way,
	progress func(text string) error,
) (changed bool, _ error) {
	f := s.Fetcher()
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
	if err == nil || errors.Is(err, ErrStop) || ctx.Err() != nil {
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

// Keep stores the contents of the config in force, and removes those that no rollback needs.
func (f *Fetcher) Keep(at plan.Config) error {
	if _, err := f.Adopt(at.Config); err != nil {
		return err
	}
	return f.Confirm(at.Name, at.Config)
}

// The first pause before another attempt, and the longest one.
const minPause, maxPause = time.Second, time.Minute

// Syncer brings the remote files and OS images of configs onto a machine. It downloads those of the next config in the
// background. A nil Syncer is that of a host that downloads nothing.
type Syncer struct {
	fetcher *Fetcher
	// images downloads OS images; nil if the host cannot. image is the one that was downloaded last.
	images host.ImageDownloader
	image  string
	// machine is locked while a goroutine uses the machine: the agent, or the background between two reads of the
	// network.
	machine sync.Mutex
	changed chan struct{}
	// background is the download under way; nil for none. Only the holder of machine uses it.
	background *background
}

// background downloads the files of one config until all are there.
type background struct {
	config string
	stop   context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	state SyncState
}

// SyncState is how far a download in the background is. The zero value is a download under way.
type SyncState struct {
	// Done is true if the machine has all files.
	Done bool
	// Problem is why a file cannot be downloaded now; nil if no attempt has failed.
	Problem error
}

// NewSyncer returns a Syncer; nil for a host that downloads nothing.
func NewSyncer(f *Fetcher, os host.OperatingSystem) *Syncer {
	if f == nil {
		return nil
	}
	images, _ := os.(host.ImageDownloader)
	return &Syncer{fetcher: f, images: images, changed: make(chan struct{}, 1)}
}

// Fetcher returns what brings files onto the machine; nil if the host downloads nothing.
func (s *Syncer) Fetcher() *Fetcher {
	if s == nil {
		return nil
	}
	return s.fetcher
}

// Changed holds at most one signal. It fires when the state of the background has changed.
func (s *Syncer) Changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.changed
}

// TryAgain lets Changed fire after a pause.
func (s *Syncer) TryAgain() { time.AfterFunc(maxPause/2, s.signal) }

func (s *Syncer) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Lock gives the machine to the caller alone, and returns the function that ends this.
func (s *Syncer) Lock() (unlock func()) {
	if s == nil {
		return func() {}
	}
	s.machine.Lock()
	return s.machine.Unlock
}

// Follow downloads the remote files of a config in the background, until the context ends or another config follows.
// The downloads of an earlier config end, and their files go. Follow returns the state. The caller holds the lock.
func (s *Syncer) Follow(ctx context.Context, way Way) (SyncState, error) {
	if b := s.background; b != nil && b.config == way.To.Name {
		return b.get(), nil
	}
	s.Stop()
	if err := s.fetcher.KeepAhead(way.To.Config); err != nil {
		return SyncState{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	b := &background{config: way.To.Name, stop: stop, ended: make(chan struct{})}
	s.background = b
	go s.run(ctx, b, way)
	return SyncState{}, nil
}

// Forget ends the downloads in the background, and removes files that only a next config needs. The caller holds the
// lock.
func (s *Syncer) Forget() error {
	if s == nil {
		return nil
	}
	s.Stop()
	return s.fetcher.ForgetAhead()
}

// Stop ends the downloads in the background. What was downloaded stays. The caller holds the lock.
func (s *Syncer) Stop() {
	if s == nil || s.background == nil {
		return
	}
	b := s.background
	s.background = nil
	b.stop()
	s.machine.Unlock() // The background may need the machine to end.
	<-b.ended
	s.machine.Lock()
}

func (b *background) get() SyncState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

func (b *background) set(s SyncState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = s
}

// run downloads the files, with growing pauses after failures.
func (s *Syncer) run(ctx context.Context, b *background, way Way) {
	defer close(b.ended)
	f := *s.fetcher
	f.Web = func(a Access) Web { return yieldingWeb{s.fetcher.Web(a), &s.machine} }
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := s.attempt(ctx, &f, way)
		if ctx.Err() != nil {
			return
		}
		b.set(SyncState{Done: err == nil, Problem: err})
		s.signal()
		if err == nil {
			return
		}
		timer := time.NewTimer(pause + rand.N(pause/4+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (s *Syncer) attempt(ctx context.Context, f *Fetcher, way Way) error {
	s.machine.Lock()
	defer s.machine.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := f.Fetch(ctx, way.To.Config, func(Progress) error { return ctx.Err() })
	if err != nil {
		return err
	}
	image := s.missingImage(way)
	s.machine.Unlock() // A program of the machine downloads the image, which takes long.
	err = s.download(ctx, image)
	s.machine.Lock()
	if err == nil && image != "" {
		s.image = image
	}
	return err
}

// missingImage returns the OS image that a config brings and that was not downloaded last; empty if there is none.
func (s *Syncer) missingImage(way Way) string {
	image := way.To.Config.OSImage()
	if s.images == nil || image == way.From.Config.OSImage() || image == s.image {
		return ""
	}
	return image
}

// download downloads an OS image. A machine that cannot do that downloads the image when it stages it.
func (s *Syncer) download(ctx context.Context, image string) error {
	if image == "" {
		return nil
	}
	if err := s.images.Download(ctx, image); err != nil && !errors.Is(err, host.ErrUnsupported) {
		return fmt.Errorf("downloading the OS image %s: %w", image, err)
	}
	return nil
}

// FetchImage downloads the OS image that a config brings. It calls progress now and then, and ends the download if that
// returns an error. The error is a *SyncError, or that of progress. The caller holds the lock.
func (s *Syncer) FetchImage(ctx context.Context, way Way, progress func(text string) error) error {
	if s == nil {
		return nil
	}
	image := s.missingImage(way)
	if image == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.download(ctx, image) }()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return &SyncError{way.To.Name, err}
			}
			s.image = image
			return nil
		case <-ticker.C:
			err := progress(fmt.Sprintf("downloading the OS image %s before the node is drained", image))
			if err != nil {
				cancel()
				<-done
				return err
			}
		}
	}
}

// yieldingWeb gives the machine to the agent while it waits for the network.
type yieldingWeb struct {
	web     Web
	machine sync.Locker
}

// Get implements Web.
func (w yieldingWeb) Get(ctx context.Context, address string,
	headers map[string]string,
) (Answer, io.ReadCloser, error) {
	w.machine.Unlock()
	defer w.machine.Lock()
	answer, body, err := w.web.Get(ctx, address, headers)
	if err != nil {
		return answer, body, err
	}
	return answer, yieldingBody{body, w.machine}, nil
}

// yieldingBody is the body of an answer.
type yieldingBody struct {
	io.ReadCloser
	machine sync.Locker
}

// Read implements io.Reader.
func (b yieldingBody) Read(into []byte) (int, error) {
	b.machine.Unlock()
	defer b.machine.Lock()
	return b.ReadCloser.Read(into)
}

// maxProblem is the maximum number of characters of a problem in a report.
const maxProblem = 2000

// LastReport returns the report in the value of v1alpha1.FetchedAnnotation. An invalid value counts as empty.
func LastReport(text string) v1alpha1.FetchReport {
	r, err := v1alpha1.ParseFetchReport(text)
	if err != nil {
		return v1alpha1.FetchReport{}
	}
	return r
}

// Report starts or continues the downloads for the config that the node gets next, and returns the report about them.
// Without such a config, the downloads end. The parameter was is the last report, and load returns the change to the
// config. The caller holds the lock.
func (s *Syncer) Report(ctx context.Context, next string, was v1alpha1.FetchReport,
	load func() (Way, error),
) v1alpha1.FetchReport {
	if next == "" {
		if err := s.Forget(); err != nil {
			s.TryAgain()
		}
		return v1alpha1.FetchReport{}
	}
	var state SyncState
	way, err := load()
	if err == nil {
		state, err = s.Follow(ctx, way)
	}
	switch {
	case err != nil:
		s.TryAgain()
		return WithProblem(next, was, err)
	case state.Problem != nil:
		return WithProblem(next, was, state.Problem)
	case state.Done:
		return v1alpha1.FetchReport{Config: next}
	case was.Config == next: // An attempt is under way, and the last report still counts.
		return was
	}
	return v1alpha1.FetchReport{} // There is nothing to report yet.
}

// WithProblem returns a report about a config with a problem. The time stays that of the last report if that had a
// problem with the config, too.
func WithProblem(config string, was v1alpha1.FetchReport, problem error) v1alpha1.FetchReport {
	is := v1alpha1.FetchReport{Config: config, Problem: problem.Error(), Since: was.Since}
	if IsUntrusted(problem) {
		is.Cause = v1alpha1.FetchUntrusted
	}
	if runes := []rune(is.Problem); len(runes) > maxProblem {
		is.Problem = string(runes[:maxProblem-1]) + "…"
	}
	if was.Config != config || was.Since == nil {
		is.Since = new(metav1.NewTime(time.Now().UTC().Truncate(time.Second)))
	}
	return is
}
