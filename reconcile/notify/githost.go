package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/forge"
)

// maxComments: failed attempts to write a comment that may delay the commit status about the end of a rollout
const maxComments = 5

// pullAge is until the git host is asked again about a commit without a pull request.
const pullAge = 5 * time.Minute

// pull is the pull request of a commit, and the time of the answer; the number is 0 if there was none then.
type pull struct {
	number int
	read   time.Time
}

type gitHost struct {
	controller   *Controller
	notification *v1alpha1.Notification
	memory       *memory
	secret       secret
	client       *http.Client
	facts        Facts
}

// Service is a commit and a pull request at a git host.
type Service interface {
	forge.Host
	forge.Commit
}

// report sets the statuses that differ, and returns when to decide again.
func (h *gitHost) report(ctx context.Context) (next time.Time, err error) {
	spec, known := h.notification.Spec, map[string]bool{}
	var errs []error
	for _, src := range h.facts.Sources {
		if len(spec.Sources) > 0 && !slices.Contains(spec.Sources, src.Name) {
			continue
		}
		target, err := h.secret.targetOf(spec.Type, src.Spec)
		if errors.Is(err, errElsewhere) && len(spec.Sources) == 0 {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("GitSource %q: %w", src.Name, err))
			continue
		}
		for _, commit := range h.facts.Commits(src) {
			known[keyOf(commit)] = true
			at, err := h.commit(ctx, target, commit)
			if err != nil {
				errs = append(errs, fmt.Errorf("GitSource %q, commit %.8s: %w", src.Name, commit.Hash, err))
				if ctx.Err() != nil {
					return next, errors.Join(errs...)
				}
			}
			if next.IsZero() || !at.IsZero() && at.Before(next) {
				next = at
			}
		}
	}
	isOld := func(key string) bool { return !known[key] }
	maps.DeleteFunc(h.memory.posted, func(k string, _ []Posted) bool { return isOld(k) })
	maps.DeleteFunc(h.memory.pulls, func(k string, _ pull) bool { return isOld(k) })
	maps.DeleteFunc(h.memory.warnings, func(k, _ string) bool { return isOld(k) })
	maps.DeleteFunc(h.memory.comments, func(k, _ string) bool { return isOld(k) })
	return next, errors.Join(errs...)
}

func keyOf(c Commit) string { return c.Source + " " + c.Hash }

// commit writes the comment on the pull request of a commit, and then sets the commit's statuses. After a crash in
// between, the status still differs, and the next attempt finds the comment.
func (h *gitHost) commit(ctx context.Context, target forge.Target, c Commit) (time.Time, error) {
	target.Head = c.Hash
	host, err := h.controller.Open(target, h.client)
	if err != nil {
		return time.Time{}, err
	}
	posted, known := h.memory.posted[keyOf(c)]
	if !known {
		if posted, err = statuses(ctx, host); err != nil {
			return time.Time{}, err
		}
		h.memory.posted[keyOf(c)] = posted
	}
	due, next := Due(c, posted, h.controller.Now(), h.controller.Pace)
	if len(due) == 0 {
		return next, nil
	}
	delete(h.memory.warnings, keyOf(c))
	if err := h.comment(ctx, host, target, c); errors.Is(err, forge.ErrForbidden) || err != nil &&
		h.memory.failures >= maxComments {
		h.memory.warnings[keyOf(c)] = h.secret.mask(err.Error())
	} else if err != nil {
		return next, err
	}
	for _, s := range due {
		err := host.Status(ctx, forge.Status{
			Context: s.Context, State: forge.State(s.State), Description: s.Description,
		})
		if fault.IsUnknown(err) {
			delete(h.memory.posted, keyOf(c)) // The next attempt reads which statuses the commit has.
		}
		if err != nil {
			return next, fmt.Errorf("setting the status %s: %w", s.Context, err)
		}
		posted = slices.DeleteFunc(slices.Clone(posted), func(p Posted) bool { return p.Context == s.Context })
		posted = append(posted, Posted{Status: s, Time: h.controller.Now()})
		h.memory.posted[keyOf(c)] = posted
	}
	return next, nil
}

func statuses(ctx context.Context, host forge.Commit) ([]Posted, error) {
	all, err := host.Statuses(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the statuses of the commit: %w", err)
	}
	out := make([]Posted, 0, len(all))
	for _, s := range all {
		out = append(out, Posted{Status: Status{
			Context: s.Context, State: State(s.State),
			Description: s.Description,
		}, Time: s.Time})
	}
	return out, nil
}

// comment goes to the pull request whose merge created the commit.
func (h *gitHost) comment(ctx context.Context, host Service, target forge.Target, c Commit) error {
	if !c.Outcome.Exists() {
		return nil
	}
	key, now := keyOf(c), h.controller.Now()
	p, known := h.memory.pulls[key]
	if !known || p.number == 0 && now.Sub(p.read) > pullAge {
		number, err := host.MergedBy(ctx)
		if err != nil {
			return fmt.Errorf("looking for the pull request of the commit: %w", err)
		}
		p = pull{number, now}
		h.memory.pulls[key] = p
	}
	if p.number == 0 {
		return nil
	}
	target.Number, target.Head = p.number, c.Hash
	host, err := h.controller.Open(target, h.client)
	if err != nil {
		return err
	}
	var machines mcfgv1.MachineConfigNodeList
	if c.Outcome.Ended() {
		fromCache := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
		if err := h.controller.Live.List(ctx, &machines, fromCache); err != nil {
			return fmt.Errorf("listing MachineConfigNodes: %w", err)
		}
	}
	forecast, err := h.forecast(ctx, host)
	if err != nil {
		return fmt.Errorf("reading the review of pull request %d: %w", p.number, err)
	}
	body := c.Outcome.Body(forecast, machines.Items)
	if h.memory.comments[key] == body {
		return nil
	}
	if _, err := forge.PublishComment(ctx, host, body); err != nil {
		return fmt.Errorf("commenting on pull request %d: %w", p.number, err)
	}
	h.memory.comments[key] = body
	return nil
}

// forecast reads the newest review with numbers from the comments.
func (h *gitHost) forecast(ctx context.Context, host forge.Host) (*Forecast, error) {
	comments, err := host.Comments(ctx)
	if err != nil {
		return nil, err
	}
	var out *Forecast
	for _, c := range comments {
		if f, ok := ParseForecast(c.Body); ok {
			f.Author = c.Author
			out = &f
		}
	}
	return out, nil
}
