package up

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

// Status runs `bunsen-standalone status`, which prints a table of the processes of a data directory and their memory in
// MiB, with shared pages divided among processes (PSS).
func Status(args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("bunsen-standalone status", flag.ContinueOnError)
	f.SetOutput(errs)
	data := f.String("data", ".bunsen", "`folder` for all data")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitStopped
	} else if err != nil {
		return exitUsage
	}
	if err := printStatus(*data, out); err != nil {
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	return exitStopped
}

func printStatus(data string, out io.Writer) error {
	if _, err := os.Stat(data); err != nil {
		return fmt.Errorf("reading the data directory: %w", err)
	}
	dir, err := plane.OpenDir(data)
	if err != nil {
		return err
	}
	running, err := plane.FindRunning(dir.Run())
	if err != nil {
		return err
	}
	if pid := dir.Holder(); pid > 0 {
		running = append(running, plane.Running{Name: "the supervisor", PID: pid})
	}
	if len(running) == 0 {
		fmt.Fprintf(out, "nothing runs on %s\n", dir)
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tPID\tMEMORY")
	total := 0
	for _, r := range running {
		kib := proportional(r.PID)
		total += kib
		fmt.Fprintf(table, "%s\t%d\t%d MiB\n", r.Name, r.PID, kib>>10)
	}
	fmt.Fprintf(table, "together\t\t%d MiB\n", total>>10)
	return table.Flush()
}

// proportional returns the PSS of a process in KiB, or 0 if it is not known.
func proportional(pid int) int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			var kib int
			_, _ = fmt.Sscanf(rest, "%d", &kib)
			return kib
		}
	}
	return 0
}
