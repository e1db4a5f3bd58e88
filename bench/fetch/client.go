package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/repository"
)

// clientCommand is the first argument of the process that fetches as the controller does.
const clientCommand = "client"

// client runs this program as a client, and measures it.
func (b *bench) client(do, url string, args ...string) (measure.Sample, error) {
	self, err := os.Executable()
	if err != nil {
		return measure.Sample{}, err
	}
	cmd := exec.CommandContext(b.ctx, self, append([]string{clientCommand, "-do", do, "-url", url}, args...)...)
	return measure.Process(cmd)
}

func runClient(ctx context.Context, args []string, out io.Writer) error {
	var do, url, hash, applied, path, cache, into, earlier string
	var polls int
	f := flag.NewFlagSet(clientCommand, flag.ContinueOnError)
	f.StringVar(&do, "do", "", "list or tree")
	f.StringVar(&url, "url", "", "address of the repository")
	f.StringVar(&hash, "hash", "", "commit")
	f.StringVar(&applied, "applied", "", "applied commit")
	f.StringVar(&path, "path", "", "folder in the repository")
	f.StringVar(&cache, "cache", "", "directory of fetched objects; empty: none")
	f.StringVar(&into, "into", "", "directory for the files")
	f.StringVar(&earlier, "earlier", "", "directory with the files of the applied commit; empty: none")
	f.IntVar(&polls, "polls", 1, "number of listings")
	if err := f.Parse(args); err != nil {
		return err
	}
	o := &repository.Opener{Now: time.Now}
	if cache != "" {
		if err := os.MkdirAll(cache, 0o700); err != nil {
			return err
		}
		var err error
		if o.Objects, err = objects.NewCache(cache, time.Now()); err != nil {
			return err
		}
	}
	repo, err := o.OpenGit(git.Config{URL: url})
	if err != nil {
		return err
	}
	repo.Path, repo.Ref = path, &v1alpha1.GitRef{Branch: "main"}
	if do == "list" {
		for range polls {
			listed, err := repo.List(ctx, source.Poll{Now: time.Now()})
			if err != nil {
				return err
			}
			fmt.Fprintln(out, len(listed.Refs))
		}
		return nil
	}
	if err := os.MkdirAll(into, 0o700); err != nil {
		return err
	}
	picked := source.Picked{Ref: "main", Hash: hash, FullName: "refs/heads/main", Applied: applied}
	if applied != "" { // as the controller, which compares the history
		e, err := repo.Evidence(ctx, picked)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, e.Descent)
	}
	tree, err := repo.Fetch(ctx, picked, source.Destination{Dir: into, Earlier: earlier})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, tree.Digest)
	return nil
}
