package mcs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// config is a rendered config with one file, or one that cannot be served where the file's path is none.
func config(name, path string) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{}
	mc.Name = name
	mc.Spec.Config.Raw = fmt.Appendf(nil,
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":%q,"contents":{"source":"data:,1"}}]}}`, path)
	return mc
}

// put puts what can be served.
func put(t *testing.T, s *Pools, pool string, mc *mcfgv1.MachineConfig) {
	t.Helper()
	if err := s.Set(pool, mc); err != nil {
		t.Fatal(err)
	}
}

// served is the newest version's text of what a pool serves.
func served(t *testing.T, s *Pools, pool string) string {
	t.Helper()
	o, err := s.Config(pool)
	if err != nil {
		t.Fatal(err)
	}
	b, err := o.Body(ServedFormat{Version: Newest}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b.Head) + string(b.Tail)
}

func TestWhatPoolsReturn(t *testing.T) {
	s := NewPools()
	if _, err := s.Config("worker"); !errors.Is(err, ErrNotSynced) || s.Ready() {
		t.Errorf("before the pools are known: %v", err)
	}
	put(t, s, "worker", config("rendered-worker-1", "/etc/a"))
	put(t, s, "empty", nil)
	s.SetUnavailable("held", "its rollout was halted")
	if _, err := s.Config("empty"); !errors.Is(err, ErrNotSynced) {
		t.Errorf("nothing is put there yet: %v", err)
	}
	s.SetSynced()
	for pool, want := range map[string]error{
		"empty": ErrNothingRendered, "held": ErrNothingRendered,
		"other": ErrUnknownPool,
	} {
		if _, err := s.Config(pool); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", pool, err, want)
		}
	}
	if _, err := s.Config("held"); err == nil || err.Error() != "its rollout was halted" {
		t.Errorf("held: %v does not say why", err)
	}
	if o, err := s.Config("worker"); err != nil || o.Name() != "rendered-worker-1" {
		t.Errorf("worker: %v", err)
	}
	want := map[string]v1alpha1.ServedPool{
		"worker": {Config: "rendered-worker-1"},
		"empty":  {Problem: ErrNothingRendered.Error()},
		"held":   {Problem: "its rollout was halted"},
	}
	if diff := cmp.Diff(want, s.Status()); diff != "" {
		t.Error(diff)
	}
	s.Remove("worker")
	if _, err := s.Config("worker"); !errors.Is(err, ErrUnknownPool) {
		t.Errorf("removed: %v", err)
	}
}

func TestAPoolKeepsWhatItServesWhileTheNextCannotBe(t *testing.T) {
	s := NewPools()
	put(t, s, "worker", config("rendered-worker-1", "/etc/a"))
	if err := s.Set("worker", config("rendered-worker-2", "relative")); err == nil {
		t.Fatal("a config that is none was taken")
	}
	got := s.Status()["worker"]
	if got.Config != "rendered-worker-1" || !strings.Contains(got.Problem, "rendered-worker-2") {
		t.Errorf("%+v", got)
	}
	put(t, s, "worker", config("rendered-worker-1", "/etc/a"))
	if got := s.Status()["worker"]; got.Problem != "" {
		t.Errorf("the earlier one was put again: %+v", got)
	}
	put(t, s, "worker", config("rendered-worker-3", "/etc/c"))
	if got := s.Status()["worker"]; got.Config != "rendered-worker-3" {
		t.Errorf("%+v", got)
	}
}

func TestWithoutAnEarlierConfigWhoeverAsksIsToldWhatIsWrong(t *testing.T) {
	s := NewPools()
	if err := s.Set("worker", config("rendered-worker-1", "relative")); err == nil {
		t.Fatal("a config that is none was taken")
	}
	o, err := s.Config("worker")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Body(ServedFormat{Version: Newest, Gzip: true}, nil); err == nil ||
		!strings.Contains(err.Error(), "relative") {
		t.Errorf("%v", err)
	}
	if got := s.Status()["worker"]; got.Config != "" || got.Problem == "" {
		t.Errorf("%+v", got)
	}
	if err := s.Set("worker", config("rendered-worker-2", "also/relative")); err == nil {
		t.Fatal("a config that is none was taken")
	}
	if o, _ = s.Config("worker"); o.Name() != "rendered-worker-2" {
		t.Errorf("it tells what is wrong with %s, which nobody wants any more", o.Name())
	}
}

func TestWhatTheServerAddsIsInAllConfigsAtOnce(t *testing.T) {
	s := NewPools()
	put(t, s, "worker", config("rendered-worker-1", "/etc/a"))
	put(t, s, "infra", config("rendered-infra-1", "/etc/b"))
	s.SetUnavailable("held", "why")
	before, _ := s.Config("worker")
	if err := s.SetExtra(
		Extra{Files: []File{{Path: "/etc/ca", Mode: 0o644, Contents: []byte("pem")}}}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "later", config("rendered-later-1", "/etc/c"))
	for _, pool := range []string{"worker", "infra", "later"} {
		if !strings.Contains(served(t, s, pool), `"/etc/ca"`) {
			t.Errorf("%s lacks the file", pool)
		}
	}
	if b, err := before.Body(ServedFormat{Version: Newest}, nil); err != nil || strings.Contains(string(b.Head), `"/etc/ca"`) {
		t.Errorf("a config changed that a request uses: %v", err)
	}
	if got := s.Status()["held"].Problem; got != "why" {
		t.Errorf("held: %q", got)
	}
}

func TestWhatCannotBeAddedLeavesThePoolsAsTheyAre(t *testing.T) {
	s := NewPools()
	linked := config("rendered-worker-1", "/etc/z")
	linked.Spec.Config.Raw = []byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"links":[{"path":"/etc/a","target":"/x"}]}}`)
	put(t, s, "worker", linked)
	put(t, s, "infra", config("rendered-infra-1", "/etc/b"))
	below := Extra{Files: []File{{Path: "/etc/a/ca", Mode: 0o644}}} // below a link of worker's
	if err := s.SetExtra(below); err == nil || !strings.Contains(err.Error(), "worker") ||
		strings.Contains(err.Error(), "infra") {
		t.Errorf("%v", err)
	}
	if strings.Contains(served(t, s, "worker"), "/etc/a/ca") || !strings.Contains(served(t, s, "infra"), "/etc/a/ca") {
		t.Error("worker has it, or infra has it not")
	}
	if err := s.SetExtra(Extra{}); err != nil || s.Status()["worker"].Problem != "" {
		t.Errorf("without it: %v, %+v", err, s.Status())
	}
}

func TestAConfigThatIsKeptHasWhatTheServerAddsNow(t *testing.T) {
	s := NewPools()
	put(t, s, "worker", config("rendered-worker-1", "/etc/a"))
	if err := s.Set("worker", config("rendered-worker-2", "relative")); err == nil {
		t.Fatal("a config that is none was taken")
	}
	if err := s.SetExtra(Extra{Files: []File{{Path: "/etc/ca", Mode: 0o644}}}); err == nil {
		t.Error("nobody is told that worker has a problem")
	}
	if !strings.Contains(served(t, s, "worker"), `"/etc/ca"`) {
		t.Error("a rotated CA does not reach new machines of a pool whose newest config is bad")
	}
}

func TestTheETagIsThatOfTheBytesAndNotOfTheToken(t *testing.T) {
	s := NewPools()
	secret := config("rendered-worker-1", "/etc/x.key")
	secret.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: "/etc/x.key"}
	put(t, s, "worker", secret)
	o, _ := s.Config("worker")
	seen := map[string]ServedFormat{}
	for _, f := range []ServedFormat{
		{Version: Newest},
		{Version: V3_2},
		{Version: Newest, Gzip: true},
		{Version: Newest, Withhold: true},
	} {
		b, err := o.Body(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[b.ETag]; twice || !strings.HasPrefix(b.ETag, `"`) {
			t.Errorf("%+v has the ETag %s of %+v", f, b.ETag, other)
		}
		seen[b.ETag] = f
	}
	if err := s.SetExtra(Extra{Join: &Join{Server: "https://api:6443"}}); err != nil {
		t.Fatal(err)
	}
	o, _ = s.Config("worker")
	if b, err := o.Body(ServedFormat{Version: Newest}, nil); err != nil || !b.NeedsBootstrapToken() ||
		!strings.HasPrefix(b.ETag, `W/"`) {
		t.Errorf("%v: the same ETag stands for bodies that differ by their token: %s", err, b.ETag)
	}
}

func TestAConfigWithoutSecretsHasOneBodyForAll(t *testing.T) {
	s := NewPools()
	put(t, s, "worker", config("rendered-worker-1", "/etc/a"))
	o, _ := s.Config("worker")
	for _, zipped := range []bool{false, true} {
		all, err := o.Body(ServedFormat{Version: Newest, Gzip: zipped}, nil)
		if err != nil {
			t.Fatal(err)
		}
		less, err := o.Body(ServedFormat{Version: Newest, Gzip: zipped, Withhold: true}, nil)
		if err != nil || !bytes.Equal(all.Head, less.Head) || all.ETag != less.ETag {
			t.Errorf("%v: they differ", err)
		}
	}
	a, _ := o.Body(ServedFormat{Version: Newest}, nil)
	b, _ := o.Body(ServedFormat{Version: Newest, Withhold: true}, nil)
	if &a.Head[0] != &b.Head[0] {
		t.Error("the same bytes are kept twice")
	}
}

func TestAConfigOfTheSameNameIsServedAnewWhereItDiffers(t *testing.T) {
	s := NewPools()
	put(t, s, "worker", config("mine", "/etc/a"))
	first, _ := s.Config("worker")
	put(t, s, "worker", config("mine", "/etc/a"))
	if again, _ := s.Config("worker"); again != first {
		t.Error("the same config was made twice")
	}
	put(t, s, "worker", config("mine", "/etc/b"))
	if !strings.Contains(served(t, s, "worker"), "/etc/b") {
		t.Error("an edited config is not served")
	}
}

// Under the race detector this shows that readers need no lock of the writers.
func TestConfigsChangeWhileTheyAreServed(t *testing.T) {
	s := NewPools()
	put(t, s, "worker", config("rendered-worker-0", "/etc/a"))
	s.SetSynced()
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				o, err := s.Config("worker")
				if err != nil {
					t.Error(err)
					return
				}
				b, err := o.Body(ServedFormat{Version: V3_2, Gzip: true, Withhold: true}, nil)
				token := ""
				if b.NeedsBootstrapToken() {
					token = machineToken
				}
				if err != nil || !bytes.Contains(unzipped(t, written(t, b, token)), []byte(o.Name())) {
					t.Errorf("%v: the body of %s is another's", err, o.Name())
					return
				}
				s.Status()
			}
		})
	}
	for i := range 20 {
		put(t, s, "worker", config(fmt.Sprint("rendered-worker-", i), "/etc/a"))
		extra := Extra{}
		if i%2 == 0 {
			extra.Join = &Join{Server: "https://api:6443"}
		}
		if err := s.SetExtra(extra); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
}

// A config whose composition panics is an error to each request for it, and other pools are served.
func TestAPanicDuringCompositionIsAnError(t *testing.T) {
	c, format := newConfig(Input{}), ServedFormat{Version: Newest} // without a rendered config
	for range 2 {
		if body, err := c.Body(format, nil); err == nil ||
			!strings.Contains(err.Error(), "runtime error: invalid memory address") {
			t.Errorf("got a body of %d bytes and %v", len(body.Head), err)
		}
	}
}

// TestAHostileConfigIsNotServed: whoever wrote a rendered config, the server repeats the checks. The pool keeps what it
// served.
func TestAHostileConfigIsNotServed(t *testing.T) {
	const head = `{"ignition":{"version":"3.5.0","config":{"merge":[{"source":"data:,`
	for sentence, source := range map[string]string{
		"a setuid file in a config that it merges": `{%22ignition%22:{%22version%22:%223.4.0%22},%22storage%22:{%22files%22:[{%22path%22:%22/x%22,%22mode%22:2541}]}}`,
		"no config where one is merged":            `{%22storage%22:[[[[`,
	} {
		s := NewPools()
		put(t, s, "worker", config("rendered-worker-1", "/etc/a"))
		hostile := config("rendered-worker-2", "/etc/a")
		hostile.Spec.Config.Raw = []byte(head + source + `"}]}}}`)
		if err := s.Set("worker", hostile); err == nil ||
			!strings.Contains(err.Error(), "rendered-worker-2: ignition.config.merge[0]: ") {
			t.Errorf("%s: %v", sentence, err)
		}
		s.SetSynced()
		if text := served(t, s, "worker"); !strings.Contains(text, "rendered-worker-1") {
			t.Errorf("%s: %s", sentence, text)
		}
	}
}
