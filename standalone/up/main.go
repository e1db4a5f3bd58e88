package up

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/standalone/assets"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

// The exit codes of `bunsen-standalone up`.
const (
	exitStopped = 0
	exitFailed  = 1
	exitUsage   = 2
	exitPort    = 3
)

// errStopped is the cause of the context's end after a signal.
var errStopped = errors.New("stopped by a signal")

// Main runs `bunsen-standalone up`. It returns the exit code after all processes have stopped.
func Main(args []string, out *os.File, errs io.Writer) int {
	o, err := parse(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitStopped
	case err != nil:
		fmt.Fprintln(errs, err)
		return exitUsage
	}
	if err = runSession(o, newFileProgress(out)); err == nil {
		return exitStopped
	}
	fmt.Fprintln(errs, err)
	var conflict *plane.PortConflictError
	if errors.As(err, &conflict) {
		fmt.Fprintln(errs, "(make run uses fixed ports; set others with the flags of bin/bunsen-standalone up)")
		return exitPort
	}
	return exitFailed
}

func runSession(o options, show *progress) error {
	dir, err := plane.OpenDir(o.data)
	if err != nil {
		return err
	}
	lock, err := dir.Lock()
	if err != nil {
		return err
	}
	defer lock.Release()
	s := newSession(o, dir, show)
	ctx, done := s.handleSignals()
	defer done()
	if err := s.prepare(); err != nil {
		return err
	}
	// The link to kubectl is optional.
	if _, err := assets.Link(o.bin, o.self, "kubectl"); err != nil {
		show.Line(fmt.Sprintf("linking kubectl in %s failed: %v", o.bin, err))
	}
	err = s.run(ctx)
	if err == nil {
		s.show.Line(fmt.Sprintf("\nUp after %.1f s. %s", time.Since(s.begun).Seconds(),
			nextSteps{o: o, dir: dir}.next()))
		// The start needs more memory than the programs need later.
		debug.FreeOSMemory()
		<-ctx.Done()
	}
	stopErr := s.show.Step("stopping", func() (string, error) { s.sup.Stop(); return "", nil })
	if errors.Is(err, errStopped) {
		err = nil
	}
	return errors.Join(err, stopErr)
}

// handleSignals returns a context that the first signal ends. The second signal kills all processes.
func (s *session) handleSignals() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		s.show.Line("\nStopping; press Ctrl-C again to kill all processes.")
		cancel(errStopped)
		if _, ok := <-signals; ok {
			s.sup.Kill()
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}
