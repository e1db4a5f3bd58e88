package tour_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// terminal is one bash, which keeps its working directory and its variables from command to command.
type terminal struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	// codes has a line for each command that has ended: its exit code.
	codes chan int
	// dir has the files through which commands and their output go.
	dir string
	// gone is set after a command that did not end.
	gone bool
}

// openTerminal starts a bash in a directory.
func openTerminal(t *testing.T, directory string, env []string) *terminal {
	t.Helper()
	tm := &terminal{cmd: exec.Command("bash", "--norc", "--noprofile"), codes: make(chan int), dir: t.TempDir()}
	tm.cmd.Dir, tm.cmd.Env = directory, env
	tm.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	codes, childEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	tm.cmd.ExtraFiles = []*os.File{childEnd} // it is 3 in the shell
	if tm.input, err = tm.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := tm.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	childEnd.Close()
	go func() {
		defer close(tm.codes)
		for lines := bufio.NewScanner(codes); lines.Scan(); {
			if code, err := strconv.Atoi(lines.Text()); err == nil {
				tm.codes <- code
			}
		}
	}()
	t.Cleanup(func() {
		tm.input.Close()
		_ = syscall.Kill(-tm.cmd.Process.Pid, syscall.SIGKILL)
		_ = tm.cmd.Wait()
		codes.Close()
	})
	return tm
}

// errHangs is the error of a command that has not ended in its time.
var errHangs = errors.New("it has not ended")

// do types a command, and returns what it printed on both outputs, and its exit code.
func (tm *terminal) do(command string, limit time.Duration) (string, int, error) {
	if tm.gone {
		return "", 0, errors.New("the terminal is gone")
	}
	typed, output := filepath.Join(tm.dir, "typed"), filepath.Join(tm.dir, "output")
	if err := os.WriteFile(typed, []byte(command+"\n"), 0o600); err != nil {
		return "", 0, err
	}
	if _, err := fmt.Fprintf(tm.input, ". %q </dev/null >%q 2>&1 3>&-; echo $? >&3\n", typed, output); err != nil {
		tm.gone = true
		return "", 0, fmt.Errorf("typing: %w", err)
	}
	code, err := 0, error(nil)
	select {
	case got, alive := <-tm.codes:
		if code = got; !alive {
			err = errors.New("the shell has ended")
		}
	case <-time.After(limit):
		err = fmt.Errorf("%w after %s", errHangs, limit)
		_ = syscall.Kill(-tm.cmd.Process.Pid, syscall.SIGKILL)
	}
	tm.gone = err != nil
	text, readErr := os.ReadFile(output)
	return string(text), code, errors.Join(err, readErr)
}

// succeed types a command that must succeed, and returns what it printed.
func (tm *terminal) succeed(command string, limit time.Duration) (string, error) {
	out, code, err := tm.do(command, limit)
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with %d", code)
	}
	if err != nil {
		return out, fmt.Errorf("%q: %w:\n%s", command, err, indented(strings.Split(out, "\n")))
	}
	return out, nil
}

// expand returns a text as bash expands it.
func (tm *terminal) expand(text string) (string, error) {
	out, err := tm.succeed(`printf %s "`+strings.ReplaceAll(text, `"`, `\"`)+`"`, time.Minute)
	return out, err
}

// here returns the working directory and the exported variables.
func (tm *terminal) here() (string, []string, error) {
	out, err := tm.succeed(`printf '%s\0' "$PWD"; env -0`, time.Minute)
	words := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	return words[0], words[1:], err
}

// background is a command that runs until Ctrl-C.
type background struct {
	command string
	cmd     *exec.Cmd
	output  string
	ended   chan error
}

// startBackground starts a command in its own process group, as a terminal of its own would.
func startBackground(command, directory, output string, env []string) (*background, error) {
	file, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b := &background{command: command, output: output, ended: make(chan error, 1)}
	b.cmd = exec.Command("bash", "--norc", "--noprofile", "-c", command)
	b.cmd.Dir, b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr = directory, env, file, file
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { b.ended <- b.cmd.Wait() }()
	return b, nil
}

func (b *background) printed() string {
	text, _ := os.ReadFile(b.output)
	return string(text)
}

// interrupt does what Ctrl-C does, and waits for the end. Programs end themselves: the kernel must not end them.
func (b *background) interrupt(limit time.Duration) error {
	select {
	case err := <-b.ended:
		return fmt.Errorf("%q had ended before Ctrl-C (%v):\n%s", b.command, err, b.tail())
	default:
	}
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGINT)
	select {
	case err := <-b.ended:
		// A shell or make that was interrupted ends with 130, or by the signal itself, after its programs have ended.
		if code := b.cmd.ProcessState.ExitCode(); err != nil && !slices.Contains([]int{-1, 2, 130}, code) {
			return fmt.Errorf("%q after Ctrl-C: %w:\n%s", b.command, err, b.tail())
		}
		return nil
	case <-time.After(limit):
		_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
		<-b.ended
		return fmt.Errorf("%q did not end %s after Ctrl-C:\n%s", b.command, limit, b.tail())
	}
}

// tail are the last lines that the command printed.
func (b *background) tail() string {
	lines := strings.Split(string(bytes.TrimSpace([]byte(b.printed()))), "\n")
	return indented(lines[max(0, len(lines)-25):])
}
