package linux

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// Form says how a daemon runs on its machine: as a service or in a pod.
type Form string

// The forms. If a machine has daemons in both forms, the service serves the machine.
const (
	Service Form = "service"
	Pod     Form = "pod"
)

// Serving are the parameters of Serve.
type Serving struct {
	// Dir is the machine's root.
	Dir string
	// Form of this daemon.
	Form Form
	// Poll is how often Serve checks the locks; 0 is DefaultPoll. After the service has ended, a pod waits for ten of
	// these intervals, so that a restart of the service does not change the daemon twice.
	Poll time.Duration
	// Log gets a line whenever this daemon starts or ends to wait.
	Log *slog.Logger
}

// DefaultPoll is how often a waiting daemon checks the locks.
const DefaultPoll = 2 * time.Second

const graceChecks = 10

// Serve calls a function with the opened machine while no other daemon serves the machine. Until another daemon ends,
// Serve waits. If the service starts while a pod serves the machine, Serve ends the context of the function, which
// first finishes a running update. Then the pod waits until the service has ended, and calls the function again.
func Serve(ctx context.Context, o Serving, serve func(context.Context, host.Host) error) error {
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	locks, err := files.Open(o.Dir)
	if err != nil {
		return err
	}
	defer locks.Close() //nolint:errcheck // the process ends
	if o.Form == Service {
		if err := o.await(ctx, func() error { return locks.TryLock(files.ServiceLock) }); err != nil {
			return nonCancel(ctx, err)
		}
	}
	for ctx.Err() == nil {
		if o.Form == Pod {
			if err := o.awaitNoService(ctx, locks); err != nil {
				return nonCancel(ctx, err)
			}
		}
		yielded, err := o.serveOnce(ctx, locks, serve)
		if err != nil || !yielded {
			return nonCancel(ctx, err)
		}
	}
	return nil
}

// serveOnce serves until the function returns. serveOnce reports whether the function returned because the service
// started.
func (o Serving) serveOnce(ctx context.Context, locks *files.Root,
	serve func(context.Context, host.Host) error,
) (yielded bool, err error) {
	var h host.Host
	var closeHost func()
	open := func() (err error) {
		h, closeHost, err = OpenHost(ctx, o.Dir)
		return err
	}
	if err := o.await(ctx, open); err != nil {
		return false, err
	}
	defer closeHost()
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if o.Form == Pod && o.awaitService(serving, locks) {
			end(errYield)
		}
	}()
	err = serve(serving, h)
	yielded = errors.Is(context.Cause(serving), errYield)
	end(nil)
	<-watched
	return yielded, err
}

// errYield is the cause with which Serve ends the context of a pod, because the service waits.
var errYield = errors.New("the service of the daemon has started")

// await tries to get a lock until the lock is free.
func (o Serving) await(ctx context.Context, lock func() error) error {
	for waiting := false; ; waiting = true {
		err := lock()
		switch {
		case err == nil && waiting:
			o.Log.Info("the other daemon has ended; this one serves the machine", "form", string(o.Form))
		case errors.Is(err, files.ErrLocked):
			if !waiting {
				o.Log.Info("waiting: another daemon serves this machine", "form", string(o.Form))
			}
			if err := sleep(ctx, o.Poll); err != nil {
				return err
			}
			continue
		}
		return err
	}
}

// awaitNoService returns once no service runs on the machine. If a service has run, awaitNoService waits for a while,
// because the service may restart.
func (o Serving) awaitNoService(ctx context.Context, locks *files.Root) error {
	waiting := false
	for free := 0; ; free++ {
		is, err := locks.Locked(files.ServiceLock)
		switch {
		case err != nil:
			return err
		case is && !waiting:
			o.Log.Info("standing by: the service machine-config-daemon.service serves this machine; this pod takes " +
				"over when the service ends")
			waiting = true
			fallthrough
		case is:
			free = 0
		case !waiting || free > graceChecks:
			if waiting {
				o.Log.Info("the service has ended; this pod serves the machine")
			}
			return nil
		}
		if err := sleep(ctx, o.Poll); err != nil {
			return err
		}
	}
}

// awaitService returns true once the service runs, and false when the context ends.
func (o Serving) awaitService(ctx context.Context, locks *files.Root) bool {
	for sleep(ctx, o.Poll) == nil {
		is, err := locks.Locked(files.ServiceLock)
		if err != nil {
			o.Log.Warn("cannot check whether the service of the daemon runs", "err", err)
		}
		if is {
			o.Log.Info("the service of the daemon has started: finishing, then standing by")
			return true
		}
	}
	return false
}

// nonCancel returns an error, or nil for the error of an ended context.
func nonCancel(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
