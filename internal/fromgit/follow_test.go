package fromgit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/mcs"
)

// document is a Butane document of one file.
func document(path, text string) string {
	return "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: " + path + "\n      mode: 0644\n" +
		"      contents:\n        inline: " + text + "\n"
}

// first is a good commit.
var first = "-- pools/worker/10-motd.bu --\n" + document("/etc/motd", "one")

// served is what a run has applied.
type served struct {
	pools map[string]*mcfgv1.MachineConfig
	times int
	err   error
}

func (s *served) apply(pools map[string]*mcfgv1.MachineConfig) error {
	s.times++
	if s.err == nil {
		s.pools = pools
	}
	return s.err
}

// name is the config that a pool has, and commit the commit that it names.
func (s *served) name(pool string) string {
	if s.pools[pool] == nil {
		return ""
	}
	return s.pools[pool].Name
}

func (s *served) commit() string {
	for _, mc := range s.pools {
		_, hash, _ := strings.Cut(mc.Annotations[v1alpha1.RevisionAnnotation], "sha1:")
		return hash
	}
	return ""
}

// follow begins a run on a machine.
func (m *machine) follow(on *served) (f *fromgit.Follower, end func()) {
	m.t.Helper()
	r, end := m.open()
	f, err := r.Follow(m.t.Context(), on.apply)
	if err != nil {
		m.t.Fatal(err)
	}
	return f, end
}

// looked fails where a look does.
func looked(t *testing.T, f *fromgit.Follower) {
	t.Helper()
	if err := f.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsPushedIsTaken: a commit is taken once; one that changes no config gives the same names under its own; and a
// revert leads back to the first name, with no fetch.
func TestWhatIsPushedIsTaken(t *testing.T) {
	from, on := newRemote(t), &served{}
	one := from.push("Greet", first)
	m := newMachine(t, from)
	f, _ := m.follow(on)
	looked(t, f)
	looked(t, f)
	name := on.name("worker")
	if on.times != 1 || on.commit() != one || name == "" {
		t.Errorf("applied %d times, %s of %s", on.times, name, on.commit())
	}
	from.push("Explain", "-- README.md --\nWhat this is.\n")
	looked(t, f)
	if on.times != 2 || on.commit() == one || on.name("worker") != name {
		t.Errorf("applied %d times, %s of %s", on.times, on.name("worker"), on.commit())
	}
	from.push("Greet differently", "-- pools/worker/10-motd.bu --\n"+document("/etc/motd", "two"))
	looked(t, f)
	if on.name("worker") == name {
		t.Errorf("another content has the same name %s", name)
	}
	fetches := from.fetches.Load()
	from.git(from.work, "reset", "-q", "--hard", one)
	from.git(from.work, "push", "-q", "--force", "origin", "HEAD")
	looked(t, f)
	if on.name("worker") != name || on.commit() != one || from.fetches.Load() != fetches {
		t.Errorf("back at %s of %s, with %d fetches", on.name("worker"), on.commit(), from.fetches.Load()-fetches)
	}
	if log := m.log.take(); strings.Count(log, "msg=\"commit applied\"") != 4 ||
		!strings.Contains(log, "subject=Greet author=\"Ada <ada@example.com>\" pools=1") {
		t.Errorf("the log says\n%s", log)
	}
}

// TestMarksOfSecretsReachTheRenderedConfig: the server without a cluster withholds what the repository marks, for a
// pool and for all.
func TestMarksOfSecretsReachTheRenderedConfig(t *testing.T) {
	from := newRemote(t)
	from.push("Mark", first+`-- cluster/worker.yaml --
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: worker
  annotations:
    review.bunsen.dev/secret-paths: vault.service, /etc/vault/
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
-- cluster/all.yaml --
apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  name: cluster
  annotations:
    review.bunsen.dev/secret-paths: /etc/motd
spec: {managementState: Managed}
`)
	repository, _ := newMachine(t, from).open()
	got, err := repository.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	worker := got.Pools["worker"]
	if marks := worker.Annotations[v1alpha1.SecretPathsAnnotation]; marks != "/etc/motd,/etc/vault/,vault.service" {
		t.Errorf("the rendered config has the marks %q", marks)
	}
	body, err := mcs.Compose(mcs.Input{Pool: "worker", Rendered: worker, Withhold: true}, mcs.Newest)
	if err != nil || len(body.Withheld) != 1 || body.Withheld[0] != "file /etc/motd" {
		t.Errorf("withheld %q, %v", body.Withheld, err)
	}
}

// TestAPinnedCommitStays, whatever is pushed after it.
func TestAPinnedCommitStays(t *testing.T) {
	from, on := newRemote(t), &served{}
	one := from.push("Greet", first)
	m := newMachine(t, from)
	m.config.Ref = one
	f, _ := m.follow(on)
	looked(t, f)
	from.push("Greet differently", "-- pools/worker/10-motd.bu --\n"+document("/etc/motd", "two"))
	looked(t, f)
	if on.times != 1 || on.commit() != one {
		t.Errorf("applied %d times, %s", on.times, on.commit())
	}
}

// TestABadCommitChangesNothing: all its problems are told once, with their places; the last good one stays, also over a
// restart, and the next good one is taken.
func TestABadCommitChangesNothing(t *testing.T) {
	from, on := newRemote(t), &served{}
	one := from.push("Greet", first+"-- pools/master/10-motd.bu --\n"+document("/etc/motd", "one"))
	m := newMachine(t, from)
	f, end := m.follow(on)
	looked(t, f)
	m.log.take()
	two := from.push("Break", "-- pools/worker/20-a.bu --\n"+document("relative", "x")+"-- pools/master/20-b.bu --\n"+
		"variant: fcos\nversion: 1.6.0\nstrage: {}\n")
	var bad *fromgit.BadCommit
	err := f.Poll(t.Context())
	if !errors.As(err, &bad) {
		t.Fatalf("got %v", err)
	}
	text := strings.ReplaceAll(bad.Error(), two, "HASH")
	want := "pools/master/20-b.bu:3:1: error: "
	if !strings.Contains(text, want) || !strings.Contains(text, "\npools/worker/20-a.bu:5:7: error: ") ||
		!strings.HasSuffix(text, "\nin main@sha1:HASH \"Break\" by Ada <ada@example.com>; the commit is not applied") {
		t.Errorf("the error is\n%s", text)
	}
	trees := m.trees.Load()
	if err := f.Poll(t.Context()); err == nil || on.times != 1 || on.commit() != one || m.trees.Load() != trees {
		t.Errorf("%v; applied %d times, %s, with %d more trees", err, on.times, on.commit(), m.trees.Load()-trees)
	}
	log := strings.ReplaceAll(strings.ReplaceAll(m.log.take(), two, "TWO"), one, "ONE")
	if strings.Count(log, "\n") != 3 ||
		!strings.HasPrefix(log,
			`WARN msg="the newest commit has problems and is not applied" commit=main@sha1:TWO subject=Break author="Ada <ada@example.com>" problems=2 applied=main@sha1:ONE`) {
		t.Errorf("the log says\n%s", log)
	}
	end()
	on = &served{}
	f, _ = m.follow(on)
	if on.commit() != one {
		t.Errorf("after a restart %q is in force", on.commit())
	}
	if err := f.Poll(t.Context()); !errors.As(err, &bad) || on.times != 1 {
		t.Errorf("%v; applied %d times", err, on.times)
	}
	m.log.take()
	three := from.push("Mend", "-- pools/worker/20-a.bu --\n"+document("/etc/a", "x")+"-- pools/master/20-b.bu --\n"+
		document("/etc/b", "x"))
	looked(t, f)
	if on.commit() != three {
		t.Errorf("%s is in force", on.commit())
	}
	if log := m.log.take(); !strings.Contains(log, `msg="polling the repository succeeds again"`) {
		t.Errorf("the log says\n%s", log)
	}
}

// TestAConflictOfOnePoolStopsTheCommit: what only merging finds is told as well, and half a commit is not taken.
func TestAConflictOfOnePoolStopsTheCommit(t *testing.T) {
	from, on := newRemote(t), &served{}
	openshift := func(name, field string) string {
		return "-- pools/master/" + name + ".bu --\nvariant: openshift\nversion: 4.14.0\nmetadata:\n  name: " + name +
			"\n  labels: {machineconfiguration.openshift.io/role: master}\nopenshift:\n  " + field + "\n"
	}
	from.push("Greet", first+openshift("10-kernel", "kernel_type: realtime")+openshift("20-devel",
		"extensions: [kernel-devel]"))
	f, _ := newMachine(t, from).follow(on)
	if err := f.Poll(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "extension kernel-devel (of MachineConfig 20-devel) needs the default kernel") ||
		on.times != 0 {
		t.Errorf("%v; applied %d times", err, on.times)
	}
}

// TestTheRemoteIsAway: what is in force stays; a restart takes it from the disk, before anybody is asked; and when the
// remote is back it is followed.
func TestTheRemoteIsAway(t *testing.T) {
	from, on := newRemote(t), &served{}
	one := from.push("Greet", first)
	m := newMachine(t, from)
	f, end := m.follow(on)
	looked(t, f)
	from.away.Store(true)
	m.log.take()
	for range 3 {
		if err := f.Poll(t.Context()); err == nil {
			t.Error("a remote that is away answers")
		}
	}
	if log := m.log.take(); strings.Count(log, "\n") != 1 ||
		!strings.Contains(log, "msg=\"cannot poll the repository\"") || strings.Contains(log, password) {
		t.Errorf("the log says\n%s", log)
	}
	end()
	on = &served{}
	f, _ = m.follow(on)
	if on.commit() != one || on.times != 1 {
		t.Errorf("after a restart %q is in force", on.commit())
	}
	if err := f.Poll(t.Context()); err == nil || on.times != 1 {
		t.Errorf("%v; applied %d times", err, on.times)
	}
	from.away.Store(false)
	two := from.push("Greet again", "-- pools/worker/10-motd.bu --\n"+document("/etc/motd", "two"))
	looked(t, f)
	if on.commit() != two {
		t.Errorf("%s is in force", on.commit())
	}
}

// TestManyBadCommitsPushNothingOut: the disk keeps few trees, and always the last good one.
func TestManyBadCommitsPushNothingOut(t *testing.T) {
	from, on := newRemote(t), &served{}
	one := from.push("Greet", first)
	m := newMachine(t, from)
	f, end := m.follow(on)
	looked(t, f)
	for _, text := range []string{"a", "b", "c", "d", "e", "f"} {
		from.push("Break", "-- pools/worker/20-a.bu --\nvariant: "+text+"\n")
		if err := f.Poll(t.Context()); err == nil {
			t.Fatal("it is taken")
		}
	}
	end()
	from.away.Store(true)
	on = &served{}
	m.follow(on)
	if on.commit() != one {
		t.Errorf("after a restart %q is in force", on.commit())
	}
}

// TestWhatTheDiskHasIsNotBelievedBlindly: another question, a damaged record or a damaged tree begin anew, with the
// remote.
func TestWhatTheDiskHasIsNotBelievedBlindly(t *testing.T) {
	for sentence, harm := range map[string]func(t *testing.T, m *machine){
		"another branch": func(_ *testing.T, m *machine) { m.config.Ref = "other" },
		"another folder": func(_ *testing.T, m *machine) { m.config.Path = "infra" },
		"signatures are asked for now": func(t *testing.T, m *machine) {
			m.config.Keys = filepath.Join(t.TempDir(), "keys")
			put(t, m.config.Keys,
				[]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXWz5F1Mwz6UsQZ7pZz4t1n0vQ6h9wqv7s1wXvYb1aK "+
					"ada@example.com\n"))
		},
		"a record that is cut off": func(t *testing.T, m *machine) { put(t, m.config.Last, []byte(`{"URL":"ht`)) },
		"no record, but half of one": func(_ *testing.T, m *machine) {
			if err := os.Rename(m.config.Last, m.config.Last+".new"); err != nil {
				t.Fatal(err)
			}
		},
		"a tree that somebody edited": func(t *testing.T, m *machine) {
			files, err := filepath.Glob(filepath.Join(m.dir, "trees", "trees", "*", "pools", "worker", "10-motd.bu"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%v, %v", files, err)
			}
			put(t, files[0], []byte(document("/etc/motd", "evil")))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			from, on := newRemote(t), &served{}
			from.push("Greet", first)
			m := newMachine(t, from)
			f, end := m.follow(on)
			looked(t, f)
			end()
			harm(t, m)
			from.away.Store(true)
			on = &served{}
			r, _ := m.open()
			if _, _ = r.Follow(t.Context(), on.apply); on.times != 0 {
				t.Errorf("%v is in force", on.commit())
			}
		})
	}
}

// TestWhatCannotBeAppliedIsTriedAgain, and is not the last good commit before.
func TestWhatCannotBeAppliedIsTriedAgain(t *testing.T) {
	from, on := newRemote(t), &served{err: errors.New("no room")}
	one := from.push("Greet", first)
	m := newMachine(t, from)
	f, _ := m.follow(on)
	if err := f.Poll(t.Context()); !errors.Is(err, on.err) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(m.config.Last); !os.IsNotExist(err) {
		t.Errorf("it is remembered: %v", err)
	}
	on.err = nil
	looked(t, f)
	if on.commit() != one {
		t.Errorf("%q is in force", on.commit())
	}
}

// TestRunFollowsByItself: the first commit comes at once, and the end of the context is the end.
func TestRunFollowsByItself(t *testing.T) {
	from := newRemote(t)
	one := from.push("Greet", first)
	r, _ := newMachine(t, from).open()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	taken := make(chan string, 1)
	go func() {
		defer close(taken)
		r.Run(ctx, time.Hour, func(pools map[string]*mcfgv1.MachineConfig) error {
			taken <- pools["worker"].Annotations[v1alpha1.RevisionAnnotation]
			return nil
		})
	}()
	if got := <-taken; got != "main@sha1:"+one {
		t.Errorf("%q is in force", got)
	}
	stop()
	if more, open := <-taken; open {
		t.Errorf("%q is taken after the end", more)
	}
}

// TestTheWantedPools: only they are rendered for machines, and one that is not there is an error of the commit.
func TestTheWantedPools(t *testing.T) {
	from := newRemote(t)
	from.push("Greet", first+"-- pools/infra/10-a.bu --\n"+document("/etc/a", "x"))
	m := newMachine(t, from)
	for sentence, c := range map[string]struct {
		pools []string
		want  string
	}{
		"all where none is named":       {nil, "infra worker"},
		"the named one":                 {[]string{"infra"}, "infra"},
		"one that there is and one not": {[]string{"infra", "gpu"}, "pools/gpu: the repository does not have this pool, which is to be served; it has: infra, worker"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := &machine{t: t, dir: t.TempDir(), config: m.config}
			m.config.Pools = c.pools
			r, _ := m.open()
			out, err := r.Read(t.Context())
			var names []string
			for _, name := range []string{"gpu", "infra", "master", "worker"} {
				if out.Pools[name] != nil {
					names = append(names, name)
				}
			}
			got := strings.Join(names, " ")
			if err != nil {
				got, _, _ = strings.Cut(err.Error(), "\n")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
