package gitsource

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/source"
)

const (
	// lookEvery is how often the controller looks for a reason to list the repository again while it applies a commit.
	// The interval of the source, announced pushes and requests of users decide when it lists.
	lookEvery = time.Second
	// mostOvertaken is how many commits in a row a newer commit may overtake. Otherwise no commit would ever be applied
	// from a repository with a push every few seconds.
	mostOvertaken = 3
)

// overtaking looks for a newer commit during the apply of a commit.
type overtaking struct {
	controller *Controller
	// src is the GitSource when the apply began, and at the commit that is applied.
	src *v1alpha1.GitSource
	at  candidate
	// found is closed once there is a newer commit that the controller can apply.
	found chan struct{}
	// refused is the hash of a newer commit that cannot be applied.
	refused string
}

// watchNewer looks for a newer commit until the returned function is called. The channel is closed once the repository
// has a commit that the controller can apply: it is fetched, its signature is checked, and it is transpiled. A commit
// with an error does not stop the apply of the one before.
func (r *Controller) watchNewer(ctx context.Context, src *v1alpha1.GitSource, at candidate) (<-chan struct{}, func()) {
	if r.Newer != nil {
		return r.Newer(src)
	}
	o := &overtaking{controller: r, src: src.DeepCopy(), at: at, found: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.run(ctx)
	}()
	return o.found, func() {
		cancel()
		<-ended
	}
}

func (o *overtaking) run(ctx context.Context) {
	every := o.controller.LookEvery
	if every == 0 {
		every = lookEvery
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if newer, is := o.look(ctx); is {
			close(o.found)
			o.controller.Events.Send(kube.Event{
				Object: o.src, Reason: "RevisionOvertaken", Action: "Follow",
				Note: fmt.Sprintf("not applying the rest of %s: %s is newer", o.at.picked.Revision().Short(),
					newer.Revision().Short()),
			})
			return
		}
	}
}

// look returns a newer commit that the controller can apply; false if there is none.
func (o *overtaking) look(ctx context.Context) (source.Picked, bool) {
	r := o.controller
	now := &v1alpha1.GitSource{}
	if r.Client.Get(ctx, client.ObjectKeyFromObject(o.src), now) != nil || now.UID != o.src.UID ||
		now.Generation != o.src.Generation || now.Spec.IsSuspended(r.Now()) {
		return source.Picked{}, false // The next reconciliation follows the changed spec.
	}
	at := candidate{repo: o.at.repo, now: r.Now()}
	var err error
	at.picked, err = r.list(ctx, at.repo.Repository, now, at.now)
	if err != nil || at.picked.Hash == o.at.picked.Hash || at.picked.Hash == o.refused {
		return source.Picked{}, false
	}
	at.picked.Applied = appliedBefore(now, at.picked)
	tree, checked, err := r.fetch(ctx, now, at)
	if err != nil {
		return source.Picked{}, false // A fetch that failed is not repeated at once.
	}
	o.refused = at.picked.Hash
	past := compare(now, at.picked, checked.Descent)
	if _, err := past.decide(now.Spec, at.picked.Hash); err != nil {
		return source.Picked{}, false
	}
	if res, err := r.Transpiler.FragmentsUntil(tree, ctx.Err); err != nil || res.Report.Fatal() {
		return source.Picked{}, false
	}
	return at.picked, true
}
