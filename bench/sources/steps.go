package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// row is one period in the tables.
type row struct {
	what string
	usage
	// latencies are the times from a push until its commit is applied.
	latencies []time.Duration
}

// start creates the repositories and the GitSources, and waits until each repository that answers is applied.
func (b *bench) start(ctx context.Context) error {
	want := map[string]string{}
	for i := range b.sources - b.dead - b.shared {
		hash, err := b.pushOwn(ctx, own(i))
		if err != nil {
			return err
		}
		want[own(i)] = hash
	}
	if b.shared > 0 {
		hash, err := b.pushMono(ctx)
		if err != nil {
			return err
		}
		for i := range b.shared {
			want[sharing(i)] = hash
		}
	}
	r := row{what: "the first commits"}
	begun := time.Now()
	var err error
	r.usage, err = b.charge(func() error {
		if err := b.create(ctx); err != nil {
			return err
		}
		for name, hash := range want {
			at, err := b.await(ctx, name, hash)
			if err != nil {
				return err
			}
			r.latencies = append(r.latencies, at.Sub(begun))
		}
		return nil
	})
	b.rows = append(b.rows, r)
	b.add("the first commits, until all are applied", measure.Time(r.wall), nil)
	b.add("the first commits: CPU time", measure.Time(r.cpu), nil)
	return err
}

// settle waits until the controller writes nothing to pools for some time: the first commits cause many renderings.
func (b *bench) settle(ctx context.Context) error {
	for {
		u, err := b.charge(func() error { return pause(ctx, b.idle) })
		if err != nil || u.writes["patch machineconfigpools"]+u.writes["update machineconfigpools/status"] == 0 {
			return err
		}
	}
}

// maxRatio is the goal for the CPU time of a poll, in those of git ls-remote.
const maxRatio = 0.5

// quiet measures polls that find nothing new. Listings by git run in turn with them.
func (b *bench) quiet(ctx context.Context) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	var floor []time.Duration
	u, err := b.charge(func() error {
		for end := time.Now().Add(b.time); time.Now().Before(end); {
			s, err := b.floor(ctx)
			if err != nil {
				return err
			}
			floor = append(floor, s.CPU)
			if err := pause(ctx, min(time.Second, time.Until(end))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{what: "nothing new", usage: u})
	slices.Sort(floor)
	git := floor[len(floor)/2]
	polls := float64(b.sources-b.dead) * float64(u.wall) / (1.05 * float64(b.interval))
	each := time.Duration(float64(u.cpu) / polls)
	fmt.Fprintf(b.out, "\ngit ls-remote was measured %d times in turn with the polls; the median counts.\n", len(floor))
	b.add("a poll of a source without a new commit: CPU time", measure.Time(each),
		[]measure.Peer{measure.Took("git ls-remote", git)}, measure.RatioAtMost(maxRatio))
	return nil
}

// add adds a figure, whose size is the number of sources.
func (b *bench) add(what string, now measure.Amount, beside []measure.Peer, goals ...measure.Bound) {
	b.figures = append(b.figures, measure.Figure{
		What: what, Size: b.sources, Of: "sources", Now: now, Peers: beside, Goals: goals,
	})
}

// poll measures pushes that a poll finds, to several sources at different times.
func (b *bench) poll(ctx context.Context) error {
	r := row{what: "a push that a poll finds"}
	healthy := b.sources - b.dead - b.shared
	var err error
	r.usage, err = b.charge(func() error {
		type pushed struct {
			name, hash string
			at         time.Time
		}
		var all []pushed
		for i := range b.pushes {
			name := own(i % healthy)
			hash, err := b.pushOwn(ctx, name)
			if err != nil {
				return err
			}
			all = append(all, pushed{name, hash, time.Now()})
			if i%healthy == healthy-1 || i == b.pushes-1 {
				for _, p := range all {
					at, err := b.await(ctx, p.name, p.hash)
					if err != nil {
						return err
					}
					r.latencies = append(r.latencies, at.Sub(p.at))
				}
				all = nil
			} else if err := pause(ctx, b.interval/time.Duration(min(b.pushes, healthy))); err != nil {
				return err
			}
		}
		return nil
	})
	b.rows = append(b.rows, r)
	if err == nil {
		b.latency(r, 100, b.atInterval(), b.interval+5*time.Second)
	}
	return err
}

// pushShared measures one push to the shared repository, until each of its sources has applied the commit.
func (b *bench) pushShared(ctx context.Context) error {
	if b.shared == 0 {
		return nil
	}
	r := row{what: fmt.Sprintf("a push to %d sources of one repository", b.shared)}
	var err error
	r.usage, err = b.charge(func() error {
		hash, err := b.pushMono(ctx)
		if err != nil {
			return err
		}
		begun := time.Now()
		for i := range b.shared {
			at, err := b.await(ctx, sharing(i), hash)
			if err != nil {
				return err
			}
			r.latencies = append(r.latencies, at.Sub(begun))
		}
		return nil
	})
	b.rows = append(b.rows, r)
	if err == nil {
		b.latency(r, 100, b.atInterval(), b.interval+5*time.Second)
	}
	return err
}

// announce measures pushes to one source that a webhook announces, one after another.
func (b *bench) announce(ctx context.Context) error {
	r := row{what: "a push with a webhook"}
	var err error
	r.usage, err = b.charge(func() error {
		for range b.hooks {
			hash, err := b.pushOwn(ctx, own(0))
			if err != nil {
				return err
			}
			begun := time.Now()
			if err := b.send(ctx, hash); err != nil {
				return err
			}
			at, err := b.await(ctx, own(0), hash)
			if err != nil {
				return err
			}
			r.latencies = append(r.latencies, at.Sub(begun))
		}
		return nil
	})
	b.rows = append(b.rows, r)
	if err == nil {
		b.latency(r, 99, nil, 2*time.Second)
	}
	return err
}

// send sends the request of GitHub for a push to main.
func (b *bench) send(ctx context.Context, hash string) error {
	body := fmt.Appendf(nil, `{"ref":"refs/heads/main","after":%q}`, hash)
	mac := hmac.New(sha256.New, []byte(hookToken))
	mac.Write(body)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.child.Webhook+"/hook/"+own(0),
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-GitHub-Event", "push")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("announcing a push: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("announcing a push: %s: %s", answer.Status, text)
	}
	return err
}

// latency adds the figures of the times from a push until its commit is applied.
func (b *bench) latency(r row, percentile int, beside []measure.Peer, goal time.Duration) {
	until := r.what + ", until it is applied: "
	b.add(until+"half", measure.Time(measure.Percentile(r.latencies, 50)), beside)
	most := "the slowest"
	if percentile < 100 {
		most = fmt.Sprintf("%d %%", percentile)
	}
	b.add(until+most, measure.Time(measure.Percentile(r.latencies, percentile)), beside,
		measure.AtMost(measure.Time(goal)))
	b.add(r.what+": CPU time for each", measure.Time(r.cpu/time.Duration(len(r.latencies))), nil)
}

// atInterval is what a push without a webhook waits for at most.
func (b *bench) atInterval() []measure.Peer {
	return []measure.Peer{measure.Took("the interval", b.interval)}
}

// report prints the tables, and adds the figures of all periods.
func (b *bench) report() error {
	var memory uint64
	files := 0
	for _, r := range b.rows {
		memory, files = max(memory, r.memory), max(files, r.files)
	}
	b.add("peak memory", measure.Bytes(memory), nil)
	b.add("open files", measure.Number(float64(files), ""), nil)
	fmt.Fprintf(b.out, "\nFrom a push until this program sees the commit applied, and what the controller used "+
		"meanwhile\n")
	g := measure.Grid{Head: []string{
		"<", "wall", "commits", "p50", "p99", "last", "CPU", "CPU of a core", "peak MB",
		"open files", "sessions", "listings", "fetches", "KB of git", "API requests", "writes",
	}}
	kinds := map[string]bool{}
	for _, r := range b.rows {
		writes := 0
		for kind, n := range r.writes {
			writes += n
			kinds[kind] = true
		}
		latency := func(p int) string {
			if len(r.latencies) == 0 {
				return "–"
			}
			return measure.Duration(measure.Percentile(r.latencies, p))
		}
		g.Add(r.what, measure.Duration(r.wall), fmt.Sprint(len(r.latencies)), latency(50), latency(99), latency(100),
			measure.Duration(r.cpu),
			fmt.Sprintf("%.1f %%", 100*float64(r.cpu)/float64(r.wall)), fmt.Sprintf("%.0f", float64(r.memory)/1e6),
			fmt.Sprint(r.files),
			fmt.Sprint(r.git.first), fmt.Sprint(r.git.lists), fmt.Sprint(r.git.fetches), fmt.Sprint(r.git.bytes/1000),
			fmt.Sprint(r.requests), fmt.Sprint(writes))
	}
	if err := g.Print(b.out); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\nWrites to the API server\n")
	g = measure.Grid{Head: []string{"<"}}
	for _, r := range b.rows {
		g.Head = append(g.Head, r.what)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		cells := []string{kind}
		for _, r := range b.rows {
			cells = append(cells, fmt.Sprint(r.writes[kind]))
		}
		g.Add(cells...)
	}
	return g.Print(b.out)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
