package images

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/mcd/report"
)

const (
	// The first pause before another attempt, and the longest one.
	minPause, maxPause = time.Second, time.Minute
	// checkEvery is how often the syncer checks that the images are still there.
	checkEvery = 10 * time.Minute
	// maxProblem is the maximum number of characters of a problem in a report.
	maxProblem = 2000
)

// Cluster gives a node its Node, and receives its reports.
type Cluster interface {
	// Node reads the Node's annotations that the protocol uses.
	Node(ctx context.Context) (report.Node, error)
	// SetAnnotations sets annotations on the Node and does not change other annotations.
	SetAnnotations(ctx context.Context, annotations map[string]string) error
}

// Syncer pulls and pins the images of one node.
type Syncer struct {
	Cluster Cluster
	// Sets reads sets by their names. It leaves out those that do not exist.
	Sets func(ctx context.Context, names []string) ([]*mcfgv1.PinnedImageSet, error)
	// Publish writes a report to the MachineConfigNode.
	Publish func(ctx context.Context, at report.Images) error
	Runtime Runtime
	Log     *slog.Logger
	// Event receives a problem when it begins.
	Event func(problem string)
	// Changed fires when the Node has changed.
	Changed <-chan struct{}
	// Now is the clock.
	Now func() time.Time
}

// Errors of an attempt that did not end.
var (
	// errOther: the controller names other sets now.
	errOther = errors.New("the controller names other PinnedImageSets")
	// errStale: the sets have changed, and the controller has not named the new ones yet.
	errStale = errors.New("the PinnedImageSets have changed, and the controller has not read them yet")
)

// Run follows the Node until the context ends.
func (s *Syncer) Run(ctx context.Context) {
	for pause := minPause; ctx.Err() == nil; {
		request, err := s.request(ctx)
		if err == nil {
			err = s.follow(ctx, request)
		}
		wait := jitter(pause)
		switch {
		case errors.Is(err, errOther):
			pause = minPause
			continue
		case err == nil:
			pause, wait = minPause, jitter(checkEvery)
		default:
			s.Log.Debug("images of PinnedImageSets", "in", wait, "err", err)
			pause = min(2*pause, maxPause)
		}
		if s.otherBefore(ctx, wait, request.Digest) {
			pause = minPause
		}
	}
}

// jitter adds a random part to a pause.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// request reads which sets the node has. An invalid annotation counts as none, because the controller writes it again.
func (s *Syncer) request(ctx context.Context) (v1alpha1.PinRequest, error) {
	node, err := s.Cluster.Node(ctx)
	if err != nil {
		return v1alpha1.PinRequest{}, err
	}
	return v1alpha1.ParsePinRequest(node.Pin)
}

// otherBefore waits. It returns true early if the controller names other sets meanwhile.
func (s *Syncer) otherBefore(ctx context.Context, wait time.Duration, digest string) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return false
		case <-s.Changed:
			if now, err := s.request(ctx); err == nil && now.Digest != digest {
				return true
			}
		}
	}
}

// follow makes one attempt and reports it. If the controller names other sets meanwhile, the attempt ends with
// errOther.
func (s *Syncer) follow(ctx context.Context, request v1alpha1.PinRequest) error {
	attempt, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	var sets []*mcfgv1.PinnedImageSet
	go func() {
		var err error
		sets, err = s.attempt(attempt, request)
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, errStale) || ctx.Err() != nil || errors.Is(err, report.ErrUnreachable) {
				return err
			}
			return errors.Join(err, s.report(ctx, request, sets, err))
		case <-s.Changed:
			if now, err := s.request(ctx); err == nil && now.Digest != request.Digest {
				stop()
				<-ended
				return errOther
			}
		}
	}
}

// attempt reads the sets, and brings their images onto the machine.
func (s *Syncer) attempt(ctx context.Context, request v1alpha1.PinRequest) ([]*mcfgv1.PinnedImageSet, error) {
	if request.Digest == "" {
		return nil, Bring(ctx, s.Runtime, nil)
	}
	sets, err := s.Sets(ctx, request.Sets)
	if err != nil {
		return nil, err
	}
	if pinnedimage.Digest(sets) != request.Digest {
		return nil, errStale
	}
	if done, _ := s.lastReport(ctx); done.Digest != request.Digest {
		if err := s.Publish(ctx, report.Images{Sets: sets}); err != nil {
			s.Log.Debug("reporting the progress of images", "err", err)
		}
	}
	return sets, Bring(ctx, s.Runtime, pinnedimage.Images(sets))
}

// lastReport returns the report on the Node. An invalid report counts as none.
func (s *Syncer) lastReport(ctx context.Context) (v1alpha1.PinReport, error) {
	node, err := s.Cluster.Node(ctx)
	if err != nil {
		return v1alpha1.PinReport{}, err
	}
	was, err := v1alpha1.ParsePinReport(node.Pinned)
	if err != nil {
		return v1alpha1.PinReport{}, nil
	}
	return was, nil
}

// report writes the result of an attempt to the Node and the MachineConfigNode, if they do not have it.
func (s *Syncer) report(ctx context.Context, request v1alpha1.PinRequest, sets []*mcfgv1.PinnedImageSet,
	problem error,
) error {
	was, err := s.lastReport(ctx)
	if err != nil {
		return err
	}
	is := v1alpha1.PinReport{Digest: request.Digest}
	if problem != nil {
		is = withProblem(is, was, problem, s.Now())
	}
	if is.String() == was.String() {
		return nil
	}
	at := report.Images{Sets: sets, Done: problem == nil, Problem: is.Problem}
	if err := s.Publish(ctx, at); err != nil { // The Node has what the controller reads.
		s.Log.Debug("reporting images to the MachineConfigNode", "err", err)
	}
	if err := s.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.PinnedAnnotation: is.String()}); err != nil {
		return err
	}
	switch {
	case problem == nil:
		s.Log.Info("the node has and pins the images of its PinnedImageSets", "sets", len(sets))
	case was.Digest != is.Digest || was.Problem == "":
		s.Log.Warn("the node cannot pull or pin an image", "err", problem)
		s.Event(is.Problem)
	}
	return nil
}

// withProblem adds a problem to a report. The time stays that of the last report if that had a problem with the same
// sets.
func withProblem(is, was v1alpha1.PinReport, problem error, now time.Time) v1alpha1.PinReport {
	is.Problem, is.Since = problem.Error(), was.Since
	if runes := []rune(is.Problem); len(runes) > maxProblem {
		is.Problem = string(runes[:maxProblem-1]) + "…"
	}
	if was.Digest != is.Digest || was.Since == nil {
		at := metav1.NewTime(now.UTC().Truncate(time.Second))
		is.Since = &at
	}
	return is
}
