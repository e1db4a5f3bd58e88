package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/forge"
)

// publishFunc posts a comment and a status to a pull request, or shows them.
type publishFunc func(context.Context, io.Writer, forge.Target, string, forge.Status) error

// publisher returns what posts, or what stands in for it in a dry run.
func publisher(dryRun bool, notes io.Writer) publishFunc {
	if dryRun {
		return previewTo(notes)
	}
	return tell
}

// previewTo returns what stands in for tell in a dry run: it prints the comment, and to notes where the comment and the status
// would go. It sends nothing. With a token it reads the comments of the pull request.
func previewTo(notes io.Writer) publishFunc {
	return func(ctx context.Context, w io.Writer, t forge.Target, body string, s forge.Status) error {
		deed, err := previewDeed(ctx, t, body)
		if err != nil {
			return err
		}
		where := fmt.Sprintf("pull request %d of %s on %s (%s)", t.Number, t.Project, t.Kind, t.API)
		if t.Kind == forge.GitLab {
			where = "merge" + where[len("pull"):]
		}
		fmt.Fprintln(notes, "dry run: nothing is sent")
		fmt.Fprintln(notes, safetext.Line("comment: would "+deed+" "+where))
		fmt.Fprintln(notes, safetext.Line(fmt.Sprintf("status: would set %s of commit %s to %s: %s", s.Context, t.Head, s.State, s.Description)))
		return logged(w, body)
	}
}

// previewDeed says what would become of the comment.
func previewDeed(ctx context.Context, t forge.Target, body string) (string, error) {
	host, err := hostOf(t)
	if err != nil {
		return "", invalid(err)
	}
	if t.Token == "" && t.Fork {
		return "be printed, because the job of a fork has no token, and not be posted to", nil
	}
	if t.Token == "" {
		return "be created, or replace an earlier one of the same author and first line (no token, so the comments are not read), on", nil
	}
	outcome, err := forge.Preview(ctx, host, body)
	switch {
	case errors.Is(err, forge.ErrForbidden) && t.Fork:
		return "be printed, because the token of a fork's job may not read comments, and not be posted to", nil
	case err != nil:
		return "", unreachable(fmt.Errorf("reading the comments of the pull request: %w", err))
	}
	return map[forge.Outcome]string{
		forge.Created: "be created on", forge.Edited: "be edited on", forge.Unchanged: "stay as it is on",
	}[outcome], nil
}
