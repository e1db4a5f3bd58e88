package machine

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

	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// Time limits of the machine's own programs.
const (
	// LookLimit is the limit for reading the state.
	LookLimit = 2 * time.Minute
	// StageLimit is the limit for staging, which may fetch an image.
	StageLimit = time.Hour
	// stopLimit is the time between the request to stop a program and its kill. In this time, the program can cancel
	// its transaction.
	stopLimit = 30 * time.Second
)

// How often a failed call is retried, and the pauses between attempts. Each pause is twice as long as the previous one,
// up to the longest.
const (
	MaxTries   = 7
	FirstPause = 10 * time.Second
	MaxPause   = time.Minute
)

// Program is one of the machine's own programs.
type Program struct {
	// Path is the path of the program inside the machine's root; "" if the machine does not have it.
	Path string
	// Root is the mount point of the machine's root, in which the program runs.
	Root string
	// Env is added to the program's environment, for tests.
	Env []string
	// MaxOutput is how many bytes the program may print; 0 for no limit.
	MaxOutput int
	// Wait waits for a duration. Tests replace Wait.
	Wait func(context.Context, time.Duration) error
}

// FindProgram finds a program on the machine. If the program does not exist, its path is empty.
func FindProgram(root *files.Root, dir, name string) Program {
	x := Program{Root: filepath.Clean(dir), Wait: Wait}
	for _, at := range []string{"/usr/bin/" + name, "/usr/sbin/" + name} {
		if Exists(root, at) {
			x.Path = at
			break
		}
	}
	return x
}

// Exists reports whether a path exists on the machine. Unlike Stat, it does not read the file.
func Exists(root *files.Root, at string) bool {
	_, _, err := root.Lookup(at)
	return err == nil
}

// Wait waits for a duration. If the context ends before that, Wait returns the error of the context.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Run runs the program and returns its standard output. If the program fails, the error has the last lines of its
// standard error. The output is never logged.
func (x Program) Run(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(within, x.Path,
		args...) //nolint:gosec // the machine's own program, with arguments of ours
	if x.Root != "/" && x.Root != "" {
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: x.Root}
	}
	cmd.Env = append([]string{"LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, x.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopLimit
	out := output{most: x.MaxOutput}
	var said tail
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	switch {
	case out.tooLong:
		err = fmt.Errorf("it printed more than %d bytes", x.MaxOutput)
	case err == nil:
		return out.text.Bytes(), nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case within.Err() != nil:
		err = fmt.Errorf("it has not ended after %s", limit)
	}
	return nil, &Failure{
		program: strings.TrimSpace(path.Base(x.Path) + " " + verbOf(args)), Said: said.String(),
		err: err,
	}
}

// output stores what a program prints, up to a limit; 0 for no limit.
type output struct {
	text    bytes.Buffer
	most    int
	tooLong bool
}

// Write implements io.Writer. An error ends the program.
func (o *output) Write(p []byte) (int, error) {
	if o.most > 0 && o.text.Len()+len(p) > o.most {
		o.tooLong = true
		return 0, errors.New("too much output")
	}
	return o.text.Write(p)
}

// verbOf returns the subcommand of a program call, without its arguments.
func verbOf(args []string) string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || i == 2 {
			return strings.Join(args[:i], " ")
		}
	}
	return strings.Join(args, " ")
}

// Failure is the failure of a program.
type Failure struct {
	// Said has the last lines of the program's output, without secrets.
	Said string

	// program is the name of the program with its subcommand.
	program string
	err     error
}

// Error names the program, its exit status and its last output.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %v: %s", f.program, f.err, cmp.Or(f.Said, "it did not say why"))
}

// Unwrap returns the error of the process.
func (f *Failure) Unwrap() error { return f.err }

// RunRetrying runs the program, and repeats it after failures for which the function passes returns true.
func (x Program) RunRetrying(ctx context.Context, passes func(error) bool, args ...string) error {
	for pause, n := FirstPause, 1; ; pause, n = min(2*pause, MaxPause), n+1 {
		_, err := x.Run(ctx, StageLimit, args...)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, fs.ErrNotExist), !passes(err):
			return err
		case n == MaxTries:
			return fmt.Errorf("tried %d times: %w", n, err)
		}
		if stopped := x.Wait(ctx, pause); stopped != nil {
			return errors.Join(stopped, err)
		}
	}
}

// tail stores the end of the data that is written to it.
type tail struct{ kept []byte }

// maxTail is how many bytes of a program's output, and saidLines how many lines, an error contains.
const (
	maxTail      = 4096
	maxTailLines = 5
)

// Write implements io.Writer.
func (w *tail) Write(p []byte) (int, error) {
	w.kept = append(w.kept, p...)
	w.kept = w.kept[max(0, len(w.kept)-maxTail):]
	return len(p), nil
}

// String returns the last lines as one line, without secrets.
func (w *tail) String() string {
	var lines []string
	for line := range strings.Lines(string(w.kept)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return redact(strings.Join(lines[max(0, len(lines)-maxTailLines):], "; "))
}

// secrets match secrets in messages of registries: users in addresses, queries of signed addresses, and credentials in
// headers and fields.
var secrets = []struct {
	where *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`://[^/@\s]+@`), "://…@"},
	{regexp.MustCompile(`(https?://[^\s?"']+)\?[^\s"']*`), "$1?…"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`), "$1 …"},
	{
		regexp.MustCompile(`(?i)("?\b[a-z_]*(?:auth|password|passwd|token|secret)"?\s*[:=]\s*)("[^"]*"|[^\s",}]+)`),
		"$1…",
	},
}

// redact removes possible secrets from a message.
func redact(text string) string {
	for _, s := range secrets {
		text = s.where.ReplaceAllString(text, s.with)
	}
	return text
}
