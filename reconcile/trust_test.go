package reconcile_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/repository"
)

// checkout is a real repository in which an allowed key signs.
type checkout struct {
	t   *testing.T
	dir string
	key string
}

func newCheckout(t *testing.T, key string) *checkout {
	c := &checkout{t, filepath.Join(t.TempDir(), "config"), key}
	c.git("", "init", "-q", "-b", "main", c.dir)
	for _, subject := range []string{"first", "second"} {
		if key == "" {
			c.unsigned(subject)
		} else {
			c.commit(subject)
		}
	}
	return c
}

// git runs git in the repository, or elsewhere if dir is empty.
func (c *checkout) git(dir string, args ...string) string {
	c.t.Helper()
	run := exec.Command("git", append([]string{
		"-c", "gpg.format=ssh", "-c", "user.signingkey=" + c.key, "-c",
		"user.name=Ada", "-c", "user.email=ada@example.com",
	}, args...)...)
	run.Dir = dir
	run.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := run.CombinedOutput()
	if err != nil {
		c.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c *checkout) write(content string) {
	c.t.Helper()
	for _, f := range txtar.Parse([]byte(controllertest.Files("worker/10-motd.bu=" + content))).Files {
		file := filepath.Join(c.dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	c.git(c.dir, "add", "-A")
}

// commit commits a file with this content, signed.
func (c *checkout) commit(subject string) {
	c.t.Helper()
	c.write(subject)
	c.git(c.dir, "commit", "-q", "-S", "-m", subject)
}

// unsigned commits without a signature.
func (c *checkout) unsigned(subject string) {
	c.t.Helper()
	c.write(subject)
	c.git(c.dir, "commit", "-q", "-m", subject)
}

// run runs git in the repository.
func (c *checkout) run(args ...string) { c.t.Helper(); c.git(c.dir, args...) }

// tag creates or moves a signed tag.
func (c *checkout) tag(name, commit string) {
	c.t.Helper()
	c.run("tag", "-f", "-s", "-m", name, name, commit)
}

// A push, and what becomes of it under each mode. Each word is the outcome under the policies Allow, Warn and Block: a:
// applied; w: applied with a warning and one event; r: refused as HistoryRewritten; u: refused as SignatureMissing.
type push struct {
	ref    v1alpha1.GitRef
	before func(c *checkout) // of the first look
	push   func(c *checkout)
	want   map[v1alpha1.VerificationMode]string
}

func pushes() map[string]push {
	const none, head, tag, both, all = "", v1alpha1.VerifyHead, v1alpha1.VerifyTag, v1alpha1.VerifyTagAndHead,
		v1alpha1.VerifyRange
	type modes = map[v1alpha1.VerificationMode]string
	main, v1, versions := v1alpha1.GitRef{Branch: "main"}, v1alpha1.GitRef{Tag: "v1.0.0"}, v1alpha1.GitRef{SemVer: "1"}
	nothing := func(*checkout) {}
	tagged := func(c *checkout) { c.tag("v1.0.0", "HEAD") }
	released := func(c *checkout) { c.tag("v1.0.0", "HEAD~1"); c.tag("v1.1.0", "HEAD") }
	return map[string]push{
		"a signed commit":                    {main, nothing, func(c *checkout) { c.commit("third") }, modes{none: "aaa", head: "aaa", all: "aaa"}},
		"an unsigned commit":                 {main, nothing, func(c *checkout) { c.unsigned("third") }, modes{none: "aaa", head: "uuu", all: "uuu"}},
		"a signed commit on an unsigned one": {main, nothing, func(c *checkout) { c.unsigned("third"); c.commit("fourth") }, modes{none: "aaa", head: "aaa", all: "uuu"}},
		"a signed merge of an unsigned branch": {main, nothing, func(c *checkout) {
			c.run("checkout", "-q", "-b", "side", "HEAD~1")
			c.unsigned("aside")
			c.run("checkout", "-q", "main")
			c.run("merge", "-q", "-S", "--no-ff", "-X", "theirs", "-m", "merge", "side")
		}, modes{none: "aaa", head: "aaa", all: "uuu"}},
		"a force push, signed":   {main, nothing, func(c *checkout) { c.run("reset", "-q", "--hard", "HEAD~1"); c.commit("other") }, modes{none: "awr", head: "arr", all: "arr"}},
		"a force push, unsigned": {main, nothing, func(c *checkout) { c.run("reset", "-q", "--hard", "HEAD~1"); c.unsigned("other") }, modes{none: "awr", head: "uuu", all: "uuu"}},
		"a branch moved back":    {main, nothing, func(c *checkout) { c.run("reset", "-q", "--hard", "HEAD~1") }, modes{none: "awr", head: "arr", all: "arr"}},
		"another history": {main, nothing, func(c *checkout) {
			c.run("checkout", "-q", "--orphan", "new")
			c.commit("new")
			c.run("branch", "-f", "main", "new")
		}, modes{none: "awr", head: "arr", all: "arr"}},

		"a tag moved to a later commit":             {v1, tagged, func(c *checkout) { c.commit("third"); c.tag("v1.0.0", "HEAD") }, modes{none: "awr", head: "awr", tag: "awr", both: "awr"}},
		"a tag moved, and not signed any more":      {v1, tagged, func(c *checkout) { c.commit("third"); c.run("tag", "-f", "-a", "-m", "x", "v1.0.0", "HEAD") }, modes{none: "awr", head: "awr", tag: "uuu", both: "uuu"}},
		"a tag moved back":                          {v1, tagged, func(c *checkout) { c.tag("v1.0.0", "HEAD~1") }, modes{none: "awr", head: "arr", tag: "arr", both: "arr"}},
		"a tag moved to an unsigned commit":         {v1, tagged, func(c *checkout) { c.unsigned("third"); c.tag("v1.0.0", "HEAD") }, modes{none: "awr", head: "uuu", tag: "awr", both: "uuu"}},
		"a higher version":                          {versions, released, func(c *checkout) { c.commit("third"); c.tag("v1.2.0", "HEAD") }, modes{none: "aaa", head: "aaa", tag: "aaa", both: "aaa"}},
		"a higher version of another branch":        {versions, released, func(c *checkout) { c.run("reset", "-q", "--hard", "HEAD~1"); c.commit("fix"); c.tag("v1.2.0", "HEAD") }, modes{none: "awr", head: "arr", tag: "aaa", both: "aaa"}},
		"an earlier commit under a higher version":  {versions, released, func(c *checkout) { c.run("tag", "-a", "-m", "x", "v1.9.0", "HEAD~1") }, modes{none: "awr", head: "arr", tag: "uuu", both: "uuu"}},
		"an earlier signed tag under a higher name": {versions, released, func(c *checkout) { c.run("update-ref", "refs/tags/v1.9.0", "refs/tags/v1.0.0") }, modes{none: "awr", head: "arr", tag: "uuu", both: "uuu"}},
		"the highest version deleted":               {versions, released, func(c *checkout) { c.run("tag", "-d", "v1.1.0") }, modes{none: "awr", head: "arr", tag: "arr", both: "arr"}},
	}
}

// TestTrustInPushes: what becomes of each kind of push under each policy and mode, in a real repository.
func TestTrustInPushes(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f",
		key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen (make setup installs it): %v\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]byte{"signers": []byte("ada@example.com " + string(public))}
	tried := 0
	for name, p := range pushes() {
		before := newCheckout(t, key)
		p.before(before)
		after := &checkout{t, filepath.Join(t.TempDir(), "pushed"), key}
		if err := os.CopyFS(after.dir, os.DirFS(before.dir)); err != nil {
			t.Fatal(err)
		}
		p.push(after)
		for mode, outcomes := range p.want {
			for i, policy := range []v1alpha1.HistoryPolicy{
				v1alpha1.HistoryAllow, v1alpha1.HistoryWarn,
				v1alpha1.HistoryBlock,
			} {
				tried++
				t.Run(fmt.Sprintf("%s, mode %q, %s", name, mode, policy), func(t *testing.T) {
					w := newTrustingWorld(t, before, keys, func(s *v1alpha1.GitSource) {
						s.Spec.Ref, s.Spec.HistoryPolicy = p.ref, policy
						if mode != "" {
							s.Spec.Verify = &v1alpha1.Verification{
								Mode:      mode,
								SecretRef: v1alpha1.SecretReference{Name: "keys"},
							}
						}
					})
					w.playPush(after, string(outcomes[i]))
				})
			}
		}
	}
	t.Logf("%d pushes", tried)
}

// trustingWorld is a cluster that follows a real repository.
type trustingWorld struct {
	*world
	dir   string
	trees *repository.Store
}

func newTrustingWorld(t *testing.T, at *checkout, keys map[string][]byte,
	change func(*v1alpha1.GitSource),
) *trustingWorld {
	t.Helper()
	w := &trustingWorld{newWorld(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bunsen-system",
		Name:      "keys",
	}, Data: keys}), at.dir, nil}
	controllertest.Modify(w.Cluster, w.GitSource(), change)
	trees, err := repository.Open(filepath.Join(t.TempDir(), "store"), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trees.Close() })
	w.trees = trees
	w.open()
	return w
}

// open makes the source controller read the repository in w.dir.
func (w *trustingWorld) open() {
	w.source.Open = func(v1alpha1.GitSourceSpec, source.Secrets) (gitsource.Repository, error) {
		remote, err := git.New(git.Config{URL: w.dir})
		return repository.Repository{Remote: remote, Store: w.trees, URL: "u"}, err
	}
}

// playPush applies the repository, replaces it by the pushed one, and checks the outcome. A refused commit is then
// accepted.
func (w *trustingWorld) playPush(after *checkout, want string) {
	t := w.T
	w.follow()
	old := w.GitSource().Status.AppliedRevision
	controllertest.Contains(t, "Ready before the push", w.Condition("Ready"), "True|Succeeded")
	w.Events.Lines = nil
	w.dir = after.dir
	w.tick()
	w.follow()
	w.tick()
	w.follow() // sends no event again
	s := w.GitSource()
	verified := w.Condition(v1alpha1.SourceVerifiedCondition)
	controllertest.Equal(t, "is a condition SourceVerified there", verified != "absent", s.Spec.Verify != nil)
	events := strings.Join(w.Events.Lines, "\n")
	switch want {
	case "a", "w":
		controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
		controllertest.Equal(t, "the new revision is applied", s.Status.AppliedRevision != old &&
			s.Status.AppliedRevision == s.Status.ObservedRevision, true)
		controllertest.Equal(t, "events of a rewritten history", strings.Count(events, "Warning HistoryRewritten: "),
			len(strings.Trim(want, "a")))
		controllertest.Equal(t, "warnings", len(s.Status.Warnings) > 0, want == "w")
		if s.Spec.Verify != nil {
			controllertest.Contains(t, "SourceVerified", verified, "True|SignatureValid|revision "+
				s.Status.AppliedRevision+" is signed by ssh SHA256:")
		}
		if want == "w" {
			was, _ := source.ParseRevision(old)
			controllertest.Contains(t, "the event", events, was.Hash[:8])
			controllertest.Contains(t, "the warning", s.Status.Warnings[0], was.Hash[:8])
		}
	case "r", "u":
		reason := map[string]string{"r": "HistoryRewritten", "u": "SignatureMissing"}[want]
		controllertest.Contains(t, "Ready", w.Condition("Ready"), "False|"+reason)
		controllertest.Equal(t, "the old revision stays", s.Status.AppliedRevision, old)
		controllertest.Equal(t, "events", strings.Count(events, "Warning "+reason+": "), 1)
		if want == "u" {
			controllertest.Contains(t, "SourceVerified", verified, "False|SignatureMissing|")
		}
		w.accept(want)
	}
}

// accept names the refused commit in the annotation. A commit without the required signature stays refused.
func (w *trustingWorld) accept(want string) {
	t := w.T
	at, err := source.ParseRevision(w.GitSource().Status.ObservedRevision)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AcceptAnnotation, at.Hash)
	})
	w.follow()
	s := w.GitSource()
	ofRange := s.Spec.Verify != nil && s.Spec.Verify.Mode == v1alpha1.VerifyRange
	if want == "r" {
		controllertest.Equal(t, "the accepted revision", s.Status.AppliedRevision, s.Status.ObservedRevision)
	} else if !ofRange {
		controllertest.Contains(t, "Ready of an accepted commit without a signature", w.Condition("Ready"),
			"False|SignatureMissing")
	}
}

// TestAfterARefusedRewrite: a change of the spec that is not about the repository opens no gap, and the next commit
// that descends from the applied one is applied.
func TestAfterARefusedRewrite(t *testing.T) {
	first := newCheckout(t, "")
	first.unsigned("third")
	copyOf := func() *checkout {
		c := &checkout{t, filepath.Join(t.TempDir(), "copy"), ""}
		if err := os.CopyFS(c.dir, os.DirFS(first.dir)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	rewritten, next, prod := copyOf(), copyOf(), copyOf()
	rewritten.run("reset", "-q", "--hard", "HEAD~1")
	next.unsigned("fourth")
	prod.run("checkout", "-q", "-b", "prod", "HEAD~1")
	w := newTrustingWorld(t, first, nil, func(s *v1alpha1.GitSource) {
		s.Spec.Ref.Branch, s.Spec.HistoryPolicy = "main", v1alpha1.HistoryBlock
	})
	w.follow()
	old := w.GitSource().Status.AppliedRevision
	w.dir = rewritten.dir
	for _, change := range []func(*v1alpha1.GitSource){
		func(*v1alpha1.GitSource) {},
		func(s *v1alpha1.GitSource) { s.Spec.Interval.Duration = time.Hour; s.Generation++ },
		func(s *v1alpha1.GitSource) { s.Spec.Suspend = true; s.Generation++ },
		func(s *v1alpha1.GitSource) { s.Spec.Suspend = false; s.Generation++ },
		func(s *v1alpha1.GitSource) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AcceptAnnotation, strings.Repeat("1", 40))
		},
	} {
		controllertest.Modify(w.Cluster, w.GitSource(), change)
		w.tick()
		w.follow()
		controllertest.Equal(t, "the revision applied", w.GitSource().Status.AppliedRevision, old)
	}
	controllertest.Contains(t, "Ready", w.Condition("Ready"), "False|HistoryRewritten|")
	w.restart()
	w.open()
	w.follow()
	controllertest.Contains(t, "Ready after a restart", w.Condition("Ready"), "False|HistoryRewritten|")
	w.dir = next.dir
	w.Now = w.Now.Add(2 * time.Hour)
	w.follow()
	controllertest.Contains(t, "Ready after a later commit", w.Condition("Ready"), "True|Succeeded")
	controllertest.Equal(t, "another revision is applied", w.GitSource().Status.AppliedRevision != old, true)
	w.dir = prod.dir
	controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
		s.Spec.Ref.Branch = "prod"
		s.Generation++
	})
	w.follow()
	controllertest.Contains(t, "Ready after the spec names another branch", w.Condition("Ready"), "True|Succeeded")
}
