package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/bench/measure"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `Applying: a config's files reach a node's disk, through plan and apply, with a journal and a way back.
`

// explained explains the update and its peers.
const explained = `
new, changed what the daemon does: it looks at all files of both configs, plans, keeps what is replaced, writes a journal, the
             files, a stamp for each path where nothing was, the record of the config, and makes all of it durable
batched      the floor: as many files and stamps and their directories, each file read and compared, written beside its place
             and renamed, and one sync of the file system; no way back
no stamps    the same without stamps
side by side the same with stamps, and each file and directory synced by itself, 16 at a time
one by one   each file and stamp written, synced and renamed by itself
The machine-config-operator writes every file of a config on each update, one by one, and runs a process for each that exists.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	sizes := measure.Sizes{100, 1000}
	limit := measure.Limit{Runs: 9}
	var in string
	f := flag.NewFlagSet("apply", flag.ContinueOnError)
	f.Var(&sizes, "sizes", "numbers of files, growing")
	f.DurationVar(&limit.Time, "time", 2*time.Second, "repeat a row until it has taken the CPU for this long; each "+
		"runs at least once")
	f.StringVar(&in, "dir", "/var/tmp", "where to write; not in memory")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, kind, err := scratch(in)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a remaining temporary directory does no harm
	fmt.Fprint(out, preface, measure.Machine(), "On ", kind, ".\n")
	t := &measure.Table{
		Title: "Files of 1.5 KiB", Explained: "20 in a directory", Of: "files",
		Parts: []string{"look", "plan", "apply"},
	}
	for _, n := range sizes {
		for _, s := range states {
			if err := s.measure(ctx, t, limit, bench{filepath.Join(dir, fmt.Sprint(n)), n}); err != nil {
				return fmt.Errorf("measuring %d files, %s: %w", n, s.name, err)
			}
		}
	}
	if err := t.Print(out); err != nil {
		return err
	}
	fmt.Fprint(out, explained)
	return measure.Finish(out, nil, t)
}

// names are the names of file systems that a disk may have.
var names = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs",
	unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
}

// scratch creates a directory on a disk, and returns the kind of that disk.
func scratch(in string) (dir, kind string, err error) {
	var of unix.Statfs_t
	if err := unix.Statfs(in, &of); err != nil {
		return "", "", fmt.Errorf("looking at %s: %w; name another directory with -dir", in, err)
	}
	if of.Type == unix.TMPFS_MAGIC {
		return "", "", errors.New(in + " is in memory, where nothing has to be made durable: name a directory on a " +
			"disk with -dir")
	}
	kind = names[of.Type]
	if kind == "" {
		kind = fmt.Sprintf("a file system of type %#x", of.Type)
	}
	dir, err = os.MkdirTemp(in, "bunsen-bench-")
	return dir, kind, err
}
