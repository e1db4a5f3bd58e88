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
	"github.com/bunsen-os/bunsen/standalone/datadir"
	"github.com/bunsen-os/bunsen/standalone/ports"
	"github.com/bunsen-os/bunsen/standalone/progress"
)

// Exit codes.
const (
	exitStopped = 0
	exitFailed  = 1
	exitUsage   = 2
	exitPort    = 3
)

// errAsked is the cause of a stop that somebody asked for.
var errAsked = errors.New("asked to stop")

// Main is `bunsen-standalone up`: it returns the exit code after everything has stopped.
func Main(args []string, out *os.File, errs io.Writer) int {
	o, err := parse(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitStopped
	case err != nil:
		fmt.Fprintln(errs, err)
		return exitUsage
	}
	if err = begin(o, progress.ForFile(out)); err == nil {
		return exitStopped
	}
	fmt.Fprintln(errs, err)
	var conflict *ports.ConflictError
	if errors.As(err, &conflict) {
		fmt.Fprintln(errs, "(make run has these ports only; bin/bunsen-standalone up has the flags)")
		return exitPort
	}
	return exitFailed
}

func begin(o options, show *progress.Printer) error {
	dir, err := datadir.Open(o.data)
	if err != nil {
		return err
	}
	lock, err := dir.Lock()
	if err != nil {
		return err
	}
	defer lock.Release()
	s := newSession(o, dir, show)
	ctx, done := s.obey()
	defer done()
	if err := s.prepare(); err != nil {
		return err
	}
	// Links are a convenience: without them everything works.
	if _, err := assets.Link(o.bin, o.self, "kubectl"); err != nil {
		show.Line(fmt.Sprintf("no kubectl in %s: %v", o.bin, err))
	}
	err = s.run(ctx)
	if err == nil {
		s.show.Line(fmt.Sprintf("\nUp after %.1f s. %s", time.Since(s.begun).Seconds(), guide{o: o, dir: dir}.next()))
		// What the start needed is not needed again.
		debug.FreeOSMemory()
		<-ctx.Done()
	}
	stopErr := s.show.Step("stopping", func() (string, error) { s.sup.Stop(); return "", nil })
	if errors.Is(err, errAsked) {
		err = nil
	}
	return errors.Join(err, stopErr)
}

// obey returns a context that the first signal ends; the second one kills everything at once.
func (s *session) obey() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		s.show.Line("\nStopping; once more kills everything at once.")
		cancel(errAsked)
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
