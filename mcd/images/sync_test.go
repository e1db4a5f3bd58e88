package images_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/images"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// world is an API server and a runtime in memory.
type world struct {
	mu       sync.Mutex
	node     report.Node
	sets     map[string]*mcfgv1.PinnedImageSet
	away     bool
	problem  error
	hangs    bool
	pulled   []string
	pinned   []string
	reports  []report.Images
	events   []string
	changed  chan struct{}
	canceled int
}

func (w *world) Node(context.Context) (report.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return report.Node{}, report.ErrUnreachable
	}
	return w.node, nil
}

func (w *world) SetAnnotations(_ context.Context, a map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.node.Pinned = a[v1alpha1.PinnedAnnotation]
	return nil
}

func (w *world) PinnedImageSets(_ context.Context, names []string) (sets []*mcfgv1.PinnedImageSet, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if s := w.sets[name]; s != nil {
			sets = append(sets, s)
		}
	}
	return sets, nil
}

func (w *world) ReportImages(_ context.Context, at report.Images) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, at)
	return nil
}

func (w *world) Present(context.Context, []string) (map[string]bool, error) { return nil, nil }
func (w *world) Space() (free, total int64, err error)                      { return 1 << 40, 1 << 40, nil }

func (w *world) Pull(ctx context.Context, image string) error {
	w.mu.Lock()
	hangs := w.hangs
	w.pulled = append(w.pulled, image)
	defer w.mu.Unlock()
	if hangs {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		w.canceled++
		return ctx.Err()
	}
	return w.problem
}

func (w *world) Pin(_ context.Context, images []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pinned = images
	return nil
}

// ask names sets with one image each on the Node, as the controller does.
func (w *world) ask(generation int64, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var sets []*mcfgv1.PinnedImageSet
	for _, name := range names {
		s := &mcfgv1.PinnedImageSet{}
		s.Name, s.Generation = name, generation
		s.Spec.PinnedImages = []mcfgv1.PinnedImageRef{
			{Name: mcfgv1.ImageDigestFormat("r.example.com/" + name + "@sha256:" + strings.Repeat("0", 64))},
		}
		w.sets[name] = s
		sets = append(sets, s)
	}
	w.node.Pin = v1alpha1.PinRequest{Digest: pinnedimage.Digest(sets), Sets: names}.String()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *world) reported() v1alpha1.PinReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, _ := v1alpha1.ParsePinReport(w.node.Pinned)
	return r
}

// run plays a story while a Syncer runs. Time is that of the test.
func run(t *testing.T, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{sets: map[string]*mcfgv1.PinnedImageSet{}, changed: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		s := &images.Syncer{
			Cluster: w, Runtime: w, Sets: w.PinnedImageSets, Publish: w.ReportImages,
			Log: slog.New(slog.DiscardHandler), Changed: w.changed, Now: time.Now,
			Event: func(problem string) { w.events = append(w.events, problem) },
		}
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		story(w)
		cancel()
		<-ended
	})
}

func wait(d time.Duration) {
	time.Sleep(d) // The clock of synctest, which costs no time.
	synctest.Wait()
}

func TestANodePullsWhatTheControllerNames(t *testing.T) {
	run(t, func(w *world) {
		wait(time.Second)
		if w.node.Pinned != "" || len(w.reports) > 0 {
			t.Errorf("without sets, it reports %q", w.node.Pinned)
		}
		w.ask(1, "a", "b")
		wait(time.Second)
		if r := w.reported(); r.Digest == "" || r.Problem != "" || len(w.pinned) != 2 {
			t.Errorf("it reports %+v, and pins %v", r, w.pinned)
		}
		if last := w.reports[len(w.reports)-1]; len(w.reports) != 2 || w.reports[0].Done || !last.Done ||
			len(last.Sets) != 2 {
			t.Errorf("the MachineConfigNode gets %+v", w.reports)
		}
		was := len(w.pulled)
		wait(15 * time.Minute)
		if len(w.pulled) <= was || len(w.reports) != 2 {
			t.Error("it does not look again, or reports again")
		}
		w.ask(1)
		wait(time.Second)
		if len(w.pinned) > 0 || w.node.Pinned != "" {
			t.Errorf("without sets, it pins %v and reports %q", w.pinned, w.node.Pinned)
		}
	})
}

func TestAPullThatFailsIsReportedOnceAndTriedAgain(t *testing.T) {
	run(t, func(w *world) {
		w.problem = errors.New("401 Unauthorized")
		w.ask(1, "a")
		wait(5 * time.Minute)
		r := w.reported()
		if !strings.Contains(r.Problem, "pulling r.example.com/a@sha256:") || !strings.Contains(r.Problem, "401") ||
			r.Since == nil || len(w.events) != 1 {
			t.Errorf("it reports %+v, with events %v", r, w.events)
		}
		if n := len(w.pulled); n < 5 || n > 15 {
			t.Errorf("it tried %d times", n)
		}
		w.mu.Lock()
		w.problem = nil
		w.mu.Unlock()
		wait(2 * time.Minute)
		if r := w.reported(); r.Problem != "" || r.Digest == "" {
			t.Errorf("after the registry is back, it reports %+v", r)
		}
	})
}

func TestOtherSetsEndAPull(t *testing.T) {
	run(t, func(w *world) {
		w.hangs = true
		w.ask(1, "a")
		wait(time.Minute)
		w.mu.Lock()
		w.hangs = false
		w.mu.Unlock()
		w.ask(2, "b")
		wait(time.Second)
		if r := w.reported(); w.canceled != 1 || r.Problem != "" || len(w.pinned) != 1 ||
			!strings.Contains(w.pinned[0], "/b@") {
			t.Errorf("canceled %d, reports %+v, pins %v", w.canceled, r, w.pinned)
		}
	})
}

func TestSetsThatChangedAreNotPulledBeforeTheControllerNamesThem(t *testing.T) {
	run(t, func(w *world) {
		w.ask(1, "a")
		w.mu.Lock()
		w.sets["a"].Generation = 2
		w.mu.Unlock()
		wait(3 * time.Minute)
		if r := w.reported(); r.Digest != "" || len(w.pulled) > 0 || len(w.events) > 0 {
			t.Errorf("it reports %+v, and pulled %v", r, w.pulled)
		}
		w.ask(2, "a")
		wait(2 * time.Minute)
		if r := w.reported(); r.Digest == "" || len(w.pinned) != 1 {
			t.Errorf("it reports %+v, and pins %v", r, w.pinned)
		}
	})
}

func TestAnAPIServerThatIsAwayDelaysTheReport(t *testing.T) {
	run(t, func(w *world) {
		w.away = true
		w.ask(1, "a")
		wait(10 * time.Minute)
		w.mu.Lock()
		w.away = false
		w.mu.Unlock()
		wait(2 * time.Minute)
		if r := w.reported(); r.Digest == "" || len(w.events) > 0 {
			t.Errorf("it reports %+v, with events %v", r, w.events)
		}
	})
}
