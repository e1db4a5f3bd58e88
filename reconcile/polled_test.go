package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"
)

// polled is a repository whose listings several sources share. It records which listings each poll accepts.
type polled struct {
	*controllertest.Repository
	// other is when another source listed the repository; zero: never.
	other time.Time
	polls []source.Poll
}

// List returns the refs as of the other source's listing, if the poll accepts that.
func (p *polled) List(ctx context.Context, at source.Poll) (source.Listing, error) {
	p.polls = append(p.polls, at)
	found, err := p.Repository.List(ctx, at)
	if !p.other.Before(at.NotBefore) && !p.other.IsZero() {
		found.At = p.other
	}
	return found, err
}

// TestWhichListingsOfOtherSourcesCount: a hint is never answered from memory, and a poll is.
func TestWhichListingsOfOtherSourcesCount(t *testing.T) {
	const anew, every = "anew", "every"
	for name, test := range map[string]struct {
		act  func(w *hooked, p *polled)
		want string // "anew", "every", or since when, after the first poll
	}{
		"the next poll":     {func(w *hooked, _ *polled) { w.tick() }, "1ns"},
		"after a restart":   {func(w *hooked, p *polled) { w.restart(); w.share(p) }, every},
		"an announced push": {func(w *hooked, _ *polled) { w.announce(w.repo.Head) }, anew},
		"an announced push after a restart": {func(w *hooked, p *polled) {
			w.announce(w.repo.Head)
			w.restart()
			w.share(p)
		}, anew},
		"a retry after an announced push": {func(w *hooked, _ *polled) {
			w.announce(strings.Repeat("ab", 20))
			w.follow()
			w.Now = w.Now.Add(2 * time.Second)
		}, anew},
		"a request": {func(w *hooked, _ *polled) { w.annotate("now") }, anew},
		"a request after a restart": {func(w *hooked, p *polled) {
			w.annotate("now")
			w.restart()
			w.share(p)
		}, anew},
		"another spec": {func(w *hooked, _ *polled) { w.respecify() }, anew},
		"another spec after a restart": {func(w *hooked, p *polled) {
			w.respecify()
			w.restart()
			w.share(p)
		}, anew},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHooked(t)
			p := &polled{Repository: w.repo}
			w.restart()
			w.share(p)
			w.follow()
			begun := w.Now
			test.act(w, p)
			w.follow()
			last := p.polls[len(p.polls)-1]
			got := last.NotBefore.Sub(begun).String()
			switch {
			case len(p.polls) < 2 || !last.Now.Equal(w.Now):
				got = "no poll"
			case last.NotBefore.Equal(last.Now):
				got = anew
			case last.NotBefore.IsZero():
				got = every
			}
			controllertest.Equal(t, "which listings count", got, test.want)
			controllertest.Equal(t, "the source and its interval", fmt.Sprint(last.Source, " ", last.Interval),
				"os 1m0s")
		})
	}
}

// TestAListingOfAnotherSourceIsAsOldAsItIs: the next poll is due an interval after the listing began, whoever began it.
func TestAListingOfAnotherSourceIsAsOldAsItIs(t *testing.T) {
	w := newHooked(t)
	p := &polled{Repository: w.repo}
	w.restart()
	w.share(p)
	w.follow()
	w.Now = w.Now.Add(65 * time.Second)
	p.other = w.Now.Add(-20 * time.Second)
	if next := w.follow().RequeueAfter; next < 40*time.Second || next > 46*time.Second {
		t.Errorf("the next poll is due after %s", next)
	}
	controllertest.Equal(t, "polls", len(p.polls), 2)
	controllertest.Equal(t, "what the heartbeat reports", w.source.LastListings()["os"].At.Time, p.other)
}

// share gives the source a repository whose listings others share.
func (w *hooked) share(p *polled) {
	w.source.Open = func(v1alpha1.GitSourceSpec, source.Secrets) (gitsource.Repository, error) { return p, nil }
}

func (w *hooked) annotate(request string) {
	controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.ReconcileAnnotation, request)
	})
}

func (w *hooked) respecify() {
	controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) { s.Generation++ })
}
