package repository_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// remote is a repository that counts its listings.
type remote struct {
	mu    sync.Mutex
	refs  []source.Ref
	err   error
	asked [][]string
	// hold, if set, is received from before each answer.
	hold chan struct{}
}

func (r *remote) list(ctx context.Context, prefixes []string) ([]source.Ref, error) {
	r.mu.Lock()
	slices.Sort(prefixes)
	r.asked = append(r.asked, prefixes)
	refs, err, hold := r.refs, r.err, r.hold
	r.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, fmt.Errorf("the server did not answer: %w", context.Cause(ctx))
		}
	}
	return refs, err
}

func (r *remote) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func refs(names ...string) (out []source.Ref) {
	for _, name := range names {
		full, hash, _ := strings.Cut(name, "=")
		out = append(out, source.Ref{Name: full, Hash: hash})
	}
	return out
}

func request(key, name string, now time.Time, prefixes ...string) repository.Request {
	return repository.Request{Key: key, Prefixes: prefixes, Poll: source.Poll{
		Source: name, Now: now,
		Interval: time.Minute,
	}}
}

// hurry returns the request of a source to which a push was announced.
func hurry(r repository.Request) repository.Request {
	r.NotBefore = r.Now
	return r
}

func (r *remote) poll(t *testing.T, c *repository.Listings, q repository.Request) source.Listing {
	t.Helper()
	found, err := c.List(t.Context(), q, r.list)
	if err != nil {
		t.Fatalf("polling for %s: %v", q.Source, err)
	}
	return found
}

// TestOnePollOfManySources: sources with one address cost one listing an interval, and none of them waits longer for a
// push.
func TestOnePollOfManySources(t *testing.T) {
	const sources, interval = 20, time.Minute
	var c repository.Listings
	r := &remote{refs: refs("refs/heads/main=1", "refs/heads/dev=2")}
	type follower struct {
		due, last time.Time
		prefix    string
	}
	all := map[string]*follower{}
	for i := range sources {
		prefix := []string{"refs/heads/main", "refs/heads/dev"}[i%2]
		all[fmt.Sprintf("source-%d", i)] = &follower{due: noon.Add(time.Duration(i) * 7 * time.Second), prefix: prefix}
	}
	end := noon.Add(time.Hour)
	for now := noon; now.Before(end); now = now.Add(time.Second) {
		for name, f := range all {
			if now.Before(f.due) {
				continue
			}
			q := request("key", name, now, f.prefix)
			if !f.last.IsZero() {
				q.NotBefore = f.last.Add(1)
				if age := now.Sub(f.last); age > interval*11/10+2*time.Second {
					t.Fatalf("%s: at %s its listing is of %s before", name, now, age)
				}
			}
			found := r.poll(t, &c, q)
			if len(found.Refs) != 1 || found.Refs[0].Name != f.prefix {
				t.Fatalf("%s got %v", name, found.Refs)
			}
			f.last = found.At
			f.due = now.Add(max(f.last.Add(interval).Sub(now), time.Second) + source.Jitter(interval, name))
		}
	}
	if n := r.count(); n < 50 || n > 75 {
		t.Errorf("%d listings in an hour for %d sources with an interval of a minute", n, sources)
	}
}

// TestOtherCredentials: whoever may create GitSources but has no credentials must not learn the refs of a private
// repository.
func TestOtherCredentials(t *testing.T) {
	const url = "https://git.example.com/private"
	secret := map[string][]byte{"username": []byte("me"), "password": []byte("right")}
	key := repository.ListingKey(url, secret, nil)
	for name, other := range map[string]string{
		"none":                         repository.ListingKey(url, nil, nil),
		"an empty Secret":              repository.ListingKey(url, map[string][]byte{}, nil),
		"another password":             repository.ListingKey(url, map[string][]byte{"username": []byte("me"), "password": []byte("wrong")}, nil),
		"a key more":                   repository.ListingKey(url, map[string][]byte{"username": []byte("me"), "password": []byte("right"), "x": nil}, nil),
		"the Secret as the proxy":      repository.ListingKey(url, nil, secret),
		"a proxy":                      repository.ListingKey(url, secret, map[string][]byte{"address": []byte("http://proxy")}),
		"an empty proxy":               repository.ListingKey(url, secret, map[string][]byte{}),
		"the URL with a user":          repository.ListingKey("https://me@git.example.com/private", secret, nil),
		"values that move to the keys": repository.ListingKey(url, map[string][]byte{`password"="right" "username`: []byte("me")}, nil),
		"the Secret in the URL":        repository.ListingKey(url+`" false 2 "password"="right" "username"="me"`, nil),
	} {
		if other == key {
			t.Errorf("%s: the key is the same", name)
		}
		var c repository.Listings
		private := &remote{refs: refs("refs/heads/main=secret")}
		private.poll(t, &c, request(key, "owner", noon, "refs/heads/main"))
		stranger := &remote{err: errors.New("the server requires credentials")}
		if found, err := c.List(t.Context(), request(other, "owner", noon, "refs/heads/main"),
			stranger.list); err == nil || len(found.Refs) > 0 {
			t.Errorf("%s: got %v", name, found.Refs)
		}
	}
	if same := repository.ListingKey(url, map[string][]byte{"password": []byte("right"), "username": []byte("me")},
		nil); same != key {
		t.Error("the order of the keys changes the key")
	}
	if strings.Contains(key, "right") {
		t.Error("the key contains the password")
	}
}

// TestWhatAnAnswerIsFor: when a listing of another source counts, and when the repository is listed anew.
func TestWhatAnAnswerIsFor(t *testing.T) {
	main := func(name string, after time.Duration) repository.Request {
		return request("key", name, noon.Add(after), "refs/heads/main")
	}
	slow := main("slow", 0)
	slow.Interval = time.Hour
	for name, test := range map[string]struct {
		first, then repository.Request
		lists       int
	}{
		"a poll in the same interval":        {main("a", 0), main("b", 50*time.Second), 1},
		"a poll after the interval":          {main("a", 0), main("b", 61*time.Second), 2},
		"the shortest interval counts":       {main("a", 0), func() repository.Request { q := slow; q.Now = noon.Add(61 * time.Second); return q }(), 2},
		"a longer interval, in the shortest": {main("a", 0), func() repository.Request { q := slow; q.Now = noon.Add(59 * time.Second); return q }(), 1},
		"an announced push":                  {main("a", 0), hurry(main("b", time.Second)), 2},
		"an announced push is for all":       {hurry(main("a", 0)), main("b", time.Second), 1},
		"a source that saw the answer":       {main("a", 0), func() repository.Request { q := main("a", 30*time.Second); q.NotBefore = noon.Add(1); return q }(), 2},
		"another ref":                        {main("a", 0), request("key", "b", noon, "refs/heads/dev"), 2},
		"fewer refs":                         {request("key", "a", noon, "refs/heads/main", "HEAD"), main("b", 0), 1},
		"more refs":                          {main("a", 0), request("key", "b", noon, "refs/heads/main", "HEAD"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			var c repository.Listings
			r := &remote{refs: refs("HEAD=1", "refs/heads/main=1", "refs/heads/dev=2")}
			r.poll(t, &c, test.first)
			found := r.poll(t, &c, test.then)
			if r.count() != test.lists {
				t.Errorf("%d listings, want %d", r.count(), test.lists)
			}
			for _, p := range test.then.Prefixes {
				if !slices.ContainsFunc(found.Refs, func(ref source.Ref) bool { return ref.Name == p }) {
					t.Errorf("got %v without %s", found.Refs, p)
				}
			}
		})
	}
}

// TestPrefixesOfAllSources: the next poll asks for the refs of all sources that still poll, and an announced push for
// its own.
func TestPrefixesOfAllSources(t *testing.T) {
	var c repository.Listings
	r := &remote{refs: refs("refs/heads/dev=2", "refs/heads/main=1", "refs/tags/v1=3")}
	r.poll(t, &c, request("key", "a", noon, "refs/heads/main"))
	r.poll(t, &c, request("key", "b", noon, "refs/heads/dev"))
	r.poll(t, &c, request("key", "c", noon, "refs/tags/"))
	r.poll(t, &c, hurry(request("key", "a", noon.Add(30*time.Second), "refs/heads/main")))
	r.poll(t, &c, request("key", "a", noon.Add(95*time.Second), "refs/heads/main"))
	r.poll(t, &c, request("key", "b", noon.Add(96*time.Second), "refs/heads/dev"))
	r.poll(t, &c, request("key", "a", noon.Add(10*time.Minute), "refs/heads/main"))
	want := "[[refs/heads/main] [refs/heads/dev refs/heads/main] [refs/heads/dev refs/heads/main refs/tags/] " +
		"[refs/heads/main] " +
		"[refs/heads/dev refs/heads/main refs/tags/] [refs/heads/main]]"
	if got := fmt.Sprint(r.asked); got != want {
		t.Errorf("asked for\n%s, want\n%s", got, want)
	}
}

// TestTooManyRefsOfAnotherSource: the tags that one source follows may be more than a server sends in time.
func TestTooManyRefsOfAnotherSource(t *testing.T) {
	var c repository.Listings
	r := &remote{refs: refs("refs/heads/main=1")}
	tags := request("key", "tags", noon, "refs/tags/")
	_, _ = c.List(t.Context(), tags, (&remote{err: errors.New("too large")}).list)
	large := func(ctx context.Context, prefixes []string) ([]source.Ref, error) {
		if slices.Contains(prefixes, "refs/tags/") {
			return nil, errors.New("too large")
		}
		return r.list(ctx, prefixes)
	}
	failures := 0
	for i := range 100 {
		tags.Now = noon.Add(time.Duration(i) * time.Minute)
		_, _ = c.List(t.Context(), tags, large)
		if _, err := c.List(t.Context(), request("key", "main", tags.Now, "refs/heads/main"), large); err != nil {
			failures++
		}
	}
	if failures != 1 {
		t.Errorf("%d polls of the branch failed because of the tags", failures)
	}
}

// outcome is what List returned.
type outcome struct {
	repository.Request
	found source.Listing
	err   error
}

// start polls in a goroutine of its own.
func start(ctx context.Context, c *repository.Listings, q repository.Request,
	list func(context.Context, []string) ([]source.Ref, error),
) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		found, err := c.List(ctx, q, list)
		out <- outcome{q, found, err}
	}()
	return out
}

// TestWaiting: who waits for whom, and for how long.
func TestWaiting(t *testing.T) {
	main := func(name string) repository.Request { return request("key", name, noon, "refs/heads/main") }
	for name, story := range map[string]func(t *testing.T, c *repository.Listings, r *remote){
		"many sources at once make one request": func(t *testing.T, c *repository.Listings, r *remote) {
			var all []<-chan outcome
			for i := range 50 {
				all = append(all, start(t.Context(), c, main(fmt.Sprint(i)), r.list))
			}
			synctest.Wait()
			close(r.hold)
			for _, one := range all {
				if got := <-one; got.err != nil || len(got.found.Refs) != 1 {
					t.Errorf("got %v, %v", got.found, got.err)
				}
			}
			if r.count() != 1 {
				t.Errorf("%d listings", r.count())
			}
		},
		"an error is for those that waited": func(t *testing.T, c *repository.Listings, r *remote) {
			r.err = errors.New("the server is down")
			first, second := start(t.Context(), c, main("a"), r.list), start(t.Context(), c, main("b"), r.list)
			synctest.Wait()
			close(r.hold)
			if a, b := <-first, <-second; a.err == nil || b.err == nil || r.count() != 1 {
				t.Errorf("got %v and %v after %d listings", a.err, b.err, r.count())
			}
			r.err = nil
			r.poll(t, c, main("c"))
		},
		"an announced push does not wait for an earlier listing": func(t *testing.T, c *repository.Listings,
			r *remote,
		) {
			old := start(t.Context(), c, main("a"), r.list)
			synctest.Wait()
			q := main("b")
			q.Now = noon.Add(time.Second)
			newer := &remote{refs: refs("refs/heads/main=2")}
			if found := newer.poll(t, c, hurry(q)); found.Refs[0].Hash != "2" {
				t.Errorf("got %v", found)
			}
			close(r.hold)
			<-old
			if found := newer.poll(t, c, request("key", "c", noon.Add(2*time.Second),
				"refs/heads/main")); found.Refs[0].Hash != "2" {
				t.Errorf("the earlier listing replaced the later one: %v", found)
			}
		},
		"a source waits as long as its own timeout": func(t *testing.T, c *repository.Listings, r *remote) {
			patient := start(t.Context(), c, main("patient"), r.list)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got := <-start(ctx, c, main("hasty"), r.list)
			if !errors.Is(got.err, context.DeadlineExceeded) {
				t.Errorf("got %v", got.err)
			}
			close(r.hold)
			if got := <-patient; got.err != nil {
				t.Errorf("the other source: %v", got.err)
			}
		},
		"the end of a short timeout is no answer for the others": func(t *testing.T, c *repository.Listings,
			r *remote,
		) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			hasty := start(ctx, c, main("hasty"), r.list)
			synctest.Wait()
			patient, other := start(t.Context(), c, main("patient"), r.list), start(t.Context(), c, main("other"),
				r.list)
			if got := <-hasty; !errors.Is(got.err, context.DeadlineExceeded) {
				t.Errorf("got %v", got.err)
			}
			synctest.Wait()
			close(r.hold)
			if a, b := <-patient, <-other; a.err != nil || b.err != nil || r.count() != 2 {
				t.Errorf("got %v and %v after %d listings", a.err, b.err, r.count())
			}
		},
		"nobody joins a request that the server may have lost": func(t *testing.T, c *repository.Listings, r *remote) {
			lost := start(t.Context(), c, main("a"), r.list)
			synctest.Wait()
			q := main("b")
			q.Now = noon.Add(20 * time.Second)
			(&remote{refs: refs("refs/heads/main=1")}).poll(t, c, q)
			close(r.hold)
			<-lost
		},
		"another repository does not wait": func(t *testing.T, c *repository.Listings, r *remote) {
			lost := start(t.Context(), c, main("a"), r.list)
			synctest.Wait()
			(&remote{}).poll(t, c, request("another", "b", noon, "refs/heads/main"))
			close(r.hold)
			<-lost
		},
		"a listing that panics releases the others": func(t *testing.T, c *repository.Listings, r *remote) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_, _ = c.List(t.Context(), main("a"), func(context.Context, []string) ([]source.Ref, error) {
					<-r.hold
					panic("a bug")
				})
			}()
			synctest.Wait()
			other := start(t.Context(), c, main("b"), r.list)
			synctest.Wait()
			close(r.hold)
			<-done
			if got := <-other; got.err == nil {
				t.Errorf("got %v", got.found)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				story(t, &repository.Listings{}, &remote{refs: refs("refs/heads/main=1"), hold: make(chan struct{})})
			})
		})
	}
}

// TestTheCacheIsBounded: users may create and delete GitSources with new addresses all the time.
func TestTheCacheIsBounded(t *testing.T) {
	var c repository.Listings
	r := &remote{refs: refs("refs/heads/main=1")}
	for i := range 3000 {
		r.poll(t, &c, request(fmt.Sprint(i), "a", noon.Add(time.Duration(i)*time.Millisecond), "refs/heads/main"))
	}
	r.poll(t, &c, request("2900", "b", noon.Add(4*time.Second), "refs/heads/main"))
	if r.count() != 3000 {
		t.Error("the cache lost a new answer")
	}
	r.poll(t, &c, request("0", "b", noon.Add(4*time.Second), "refs/heads/main"))
	if r.count() != 3001 {
		t.Error("the cache has the answer of the repository that was polled longest ago")
	}
}
