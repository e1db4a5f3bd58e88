package rollback

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// absent is the mode of a file that does not exist, in git's lists.
const absent = "000000"

// changes lists the files that differ between two commits, with their state at the end of the branch.
func (c clone) changes(ctx context.Context, to, from, now string) ([]Change, error) {
	out, err := c.run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--full-index", to, from)
	if err != nil {
		return nil, fmt.Errorf("comparing %.8s with %.8s: %w", to, from, err)
	}
	current, err := c.files(ctx, now)
	if err != nil {
		return nil, err
	}
	var changes []Change
	parts := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		f := strings.Fields(strings.TrimPrefix(parts[i], ":")) // The fields are modes, hashes and a status.
		if len(f) != 5 {
			return nil, fmt.Errorf("comparing %.8s with %.8s: git prints %q", to, from, parts[i])
		}
		changes = append(changes, Change{
			Path: parts[i+1], To: blob(f[0], f[2]), From: blob(f[1], f[3]),
			Now: current[parts[i+1]],
		})
	}
	return changes, nil
}

func blob(mode, hash string) Blob {
	if mode == absent {
		return Blob{}
	}
	return Blob{Mode: mode, Hash: hash}
}

// files lists all files of a commit.
func (c clone) files(ctx context.Context, commit string) (map[string]Blob, error) {
	out, err := c.run(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, fmt.Errorf("listing the files of %.8s: %w", commit, err)
	}
	files := map[string]Blob{}
	for _, entry := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		head, name, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(head); len(f) == 3 { // The fields are mode, type and hash.
			files[name] = Blob{Mode: f[0], Hash: f[2]}
		}
	}
	return files, nil
}

// mostPaths limits the arguments of one command.
const mostPaths = 500

// commits lists the commits after old up to young that changed one of the files, newest first. A merge is listed if its
// files differ from those of every parent. With very many files, commits lists all commits.
func (c clone) commits(ctx context.Context, old, young string, changes []Change) ([]Commit, error) {
	args := []string{"log", "-z", "--no-show-signature", "--format=%H%x00%an <%ae>%x00%s", old + ".." + young, "--"}
	if len(changes) <= mostPaths {
		for _, f := range changes {
			args = append(args, f.Path)
		}
	}
	out, err := c.run(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("listing the commits after %.8s: %w", old, err)
	}
	var commits []Commit
	for f := range slices.Chunk(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), 3) {
		if len(f) == 3 {
			commits = append(commits, Commit{Hash: f[0], Author: f[1], Subject: f[2]})
		}
	}
	return commits, nil
}

// lines counts the added and removed lines of each file between two commits.
func (c clone) lines(ctx context.Context, old, young string) (map[string]string, error) {
	out, err := c.run(ctx, "diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", old, young)
	if err != nil {
		return nil, fmt.Errorf("counting the changed lines: %w", err)
	}
	counts := map[string]string{}
	for _, entry := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		if f := strings.SplitN(entry, "\t", 3); len(f) == 3 && f[0] != "-" {
			counts[f[2]] = "+" + f[0] + " -" + f[1]
		}
	}
	return counts, nil
}
