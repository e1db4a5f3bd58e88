package images_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/images"
)

// fake is a runtime that records what is asked of it.
type fake struct {
	has    map[string]bool
	fails  string
	free   int64
	pulled []string
	pinned []string
	cancel context.CancelFunc
}

func (f *fake) Present(context.Context, []string) (map[string]bool, error) { return f.has, nil }
func (f *fake) Space() (free, total int64, err error)                      { return f.free, 1000 << 20, nil }

func (f *fake) Pull(_ context.Context, image string) error {
	f.pulled = append(f.pulled, short(image))
	if f.cancel != nil {
		f.cancel()
	}
	if f.fails != "" && strings.Contains(f.fails, short(image)) {
		return errors.New("401 Unauthorized")
	}
	return nil
}

func (f *fake) Pin(_ context.Context, images []string) error {
	f.pinned = nil
	for _, image := range images {
		f.pinned = append(f.pinned, short(image))
	}
	return nil
}

func image(name string) string { return "r.example.com/" + name + "@sha256:" + strings.Repeat("0", 64) }

func short(image string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(image, "r.example.com/"), "@")
	return name
}

func TestWhatIsPulledAndPinned(t *testing.T) {
	for sentence, c := range map[string]struct {
		images, has, fails string
		free               int64
		pulled, pinned     string
		err                string
	}{
		"all of them":                                       {"a b", "", "", 900, "a b", "a b", ""},
		"what is there is not pulled":                       {"a b", "a", "", 900, "b", "a b", ""},
		"one that fails does not delay the others":          {"a b c", "", "b", 900, "a b c", "a c", "pulling r.example.com/b@sha256:" + strings.Repeat("0", 64) + ": 401 Unauthorized"},
		"three that fail end the attempt":                   {"a b c d", "d", "abc", 900, "a b c", "d", "401"},
		"a full disk ends the attempt, what is there stays": {"a b", "a", "", 99, "", "a", "a tenth or 1 GiB stays free"},
		"a full disk does not matter if all is there":       {"a b", "a b", "", 0, "", "a b", ""},
		"no images": {"", "", "", 900, "", "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := &fake{has: map[string]bool{}, fails: c.fails, free: c.free << 20}
			var all []string
			for _, name := range strings.Fields(c.images) {
				all = append(all, image(name))
			}
			for _, name := range strings.Fields(c.has) {
				f.has[image(name)] = true
			}
			err := images.Bring(t.Context(), f, all)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("it says %v", err)
			}
			if !slices.Equal(f.pulled, strings.Fields(c.pulled)) || !slices.Equal(f.pinned, strings.Fields(c.pinned)) {
				t.Errorf("pulled %v, pinned %v", f.pulled, f.pinned)
			}
		})
	}
}

// TestNoProgramGetsAHostileName: nothing is pulled or pinned if one name is none.
func TestNoProgramGetsAHostileName(t *testing.T) {
	for _, name := range []string{"--creds=a.b/c@sha256:" + strings.Repeat("0", 64), "r.example.com/a\"]\n[x]@sha256:" +
		strings.Repeat("0", 64), "r.example.com/a:latest", ""} {
		f := &fake{has: map[string]bool{}, free: 900 << 20}
		if err := images.Bring(t.Context(), f, []string{image("a"), name}); err == nil || len(f.pulled)+
			len(f.pinned) > 0 {
			t.Errorf("%q: %v, pulled %v", name, err, f.pulled)
		}
	}
	if err := images.Bring(t.Context(), &fake{}, slices.Repeat([]string{image("a")}, 5001)); err == nil ||
		!strings.Contains(err.Error(), "at most 5000") {
		t.Errorf("it says %v", err)
	}
}

func TestAnAttemptEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{has: map[string]bool{}, free: 900 << 20, cancel: cancel}
	if err := images.Bring(ctx, f, []string{image("a"), image("b")}); !errors.Is(err, context.Canceled) ||
		len(f.pulled) != 1 || f.pinned != nil {
		t.Errorf("%v, pulled %v, pinned %v", err, f.pulled, f.pinned)
	}
}
