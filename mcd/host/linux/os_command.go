package linux

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// How long the machine's own executables may take.
const (
	// looking at what there is.
	looking = 2 * time.Minute
	// staging what may have to be fetched first.
	staging = time.Hour
	// quitting: between being asked to stop and being killed, so that a transaction is cancelled and not torn.
	quitting = 30 * time.Second
)

// How often a fetch is tried, and the pauses between: the first, doubled each time up to the longest.
const (
	tries        = 7
	firstPause   = 10 * time.Second
	longestPause = time.Minute
)

// executable is one of the machine's own programs.
type executable struct {
	// path of it inside of the machine's root; "" where the machine has none.
	path string
	// root is where the machine's root is mounted: the program runs inside.
	root string
	// env is added to its environment, for tests.
	env []string
	// wait lets time pass, so that tests need none.
	wait func(context.Context, time.Duration) error
}

// executableOf finds a program on the machine; one that is not there has no path.
func executableOf(root *Root, dir, name string) executable {
	x := executable{root: filepath.Clean(dir), wait: wait}
	for _, at := range []string{"/usr/bin/" + name, "/usr/sbin/" + name} {
		if there(root, at) {
			x.path = at
			break
		}
	}
	return x
}

// there tells whether something is at a path of the machine; unlike Stat, it does not read it.
func there(root *Root, at string) bool {
	_, _, err := root.look(at)
	return err == nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// run runs it to its end and returns its standard output. The error of one that failed has the last lines that it said.
// What it prints is never logged.
func (x executable) run(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(within, x.path, args...) //nolint:gosec // the machine's own program, with arguments of ours
	if x.root != "/" && x.root != "" {
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: x.root}
	}
	cmd.Env = append([]string{"LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, x.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = quitting
	var out bytes.Buffer
	var said lastWords
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case within.Err() != nil:
		err = fmt.Errorf("it has not ended after %s", limit)
	}
	return nil, &failure{program: path.Base(x.path) + " " + verbOf(args), said: said.String(), err: err}
}

// verbOf is what a program was asked for, without what it was asked about.
func verbOf(args []string) string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || i == 2 {
			return strings.Join(args[:i], " ")
		}
	}
	return strings.Join(args, " ")
}

// failure is what a program's failure was like.
type failure struct {
	// program and verb.
	program string
	// said are its last words.
	said string
	err  error
}

// Error names the program, how it ended and what it said.
func (f *failure) Error() string {
	return fmt.Sprintf("%s: %v: %s", f.program, f.err, cmp.Or(f.said, "it did not say why"))
}

// Unwrap is how it ended.
func (f *failure) Unwrap() error { return f.err }

// busy tells failures that end when somebody else's transaction does.
func busy(err error) bool {
	var f *failure
	return errors.As(err, &f) && strings.Contains(f.said, "ransaction in progress")
}

// always takes every failure for one that may pass.
func always(error) bool { return true }

// patiently runs it again after failures that may pass.
func (x executable) patiently(ctx context.Context, passes func(error) bool, args ...string) error {
	for pause, n := firstPause, 1; ; pause, n = min(2*pause, longestPause), n+1 {
		_, err := x.run(ctx, staging, args...)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, fs.ErrNotExist), !passes(err):
			return err
		case n == tries:
			return fmt.Errorf("tried %d times: %w", n, err)
		}
		if stopped := x.wait(ctx, pause); stopped != nil {
			return errors.Join(stopped, err)
		}
	}
}

// lastWords keeps the end of what is written to it.
type lastWords struct{ kept []byte }

// keptWords are bytes, and saidLines lines, that are enough to see what went wrong.
const (
	keptWords = 4096
	saidLines = 5
)

// Write implements io.Writer.
func (w *lastWords) Write(p []byte) (int, error) {
	w.kept = append(w.kept, p...)
	w.kept = w.kept[max(0, len(w.kept)-keptWords):]
	return len(p), nil
}

// String is the last lines in one, without what may be secret.
func (w *lastWords) String() string {
	var lines []string
	for line := range strings.Lines(string(w.kept)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return hush(strings.Join(lines[max(0, len(lines)-saidLines):], "; "))
}

// secrets are what messages of registries may have in them: the user of an address, what comes after the question mark of
// a signed one, headers and fields of credentials.
var secrets = []struct {
	where *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`://[^/@\s]+@`), "://…@"},
	{regexp.MustCompile(`(https?://[^\s?"']+)\?[^\s"']*`), "$1?…"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`), "$1 …"},
	{regexp.MustCompile(`(?i)("?\b[a-z_]*(?:auth|password|passwd|token|secret)"?\s*[:=]\s*)("[^"]*"|[^\s",}]+)`), "$1…"},
}

// hush takes out of a message what may be secret.
func hush(text string) string {
	for _, s := range secrets {
		text = s.where.ReplaceAllString(text, s.with)
	}
	return text
}
