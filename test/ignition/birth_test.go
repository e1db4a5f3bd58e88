package ignition

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// patience is how long one first boot may take.
const patience = 2 * time.Minute

// judges are the Ignitions that machines boot with, and the newest version of a config that each understands.
func judges(t *testing.T) map[string]newborn {
	t.Helper()
	ours := need(t)
	return map[string]newborn{
		ours.version:       {judge: ours, speaks: mcs.V3_5},
		"2.14 from Debian": {judge: debian(t), speaks: mcs.V3_3, selinux: true},
		"0.35 of spec 2":   {judge: spec2(t), speaks: mcs.V2_2},
	}
}

// newborn makes machines with one Ignition.
type newborn struct {
	judge
	speaks  mcs.Version
	selinux bool
}

// empty is a machine that was never started: an image's root.
func (n newborn) empty(t *testing.T) string {
	t.Helper()
	root := filepath.Join(memory(t), "root")
	if err := errors.Join(os.Mkdir(root, 0o755), install(root), n.prepare(root)); err != nil {
		t.Fatal(err)
	}
	return root
}

// prepare adds to an image's root what this Ignition insists on.
func (n newborn) prepare(root string) error {
	if !n.selinux {
		return nil
	}
	return errors.Join(put(filepath.Join(root, "etc/selinux/config"), selinux),
		put(filepath.Join(root, "etc/selinux/none/contexts/files/file_contexts"), ""))
}

// start is one first boot. The log is Ignition's.
func (n newborn) start(t *testing.T, root string, config []byte) (log string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return n.boot(ctx, root, config, system{})
}

// reads makes a pointer one of the version that this Ignition reads.
func (n newborn) reads(p *join.Pointer) {
	if n.speaks == mcs.V2_2 {
		p.Version = mcs.V2_2
	}
}

// attempts is how often Ignition asked, by its log.
func attempts(log string) int { return strings.Count(log, ": attempt #") }

// looks is a root's tree, to compare.
func looks(t *testing.T, root string) tree {
	t.Helper()
	is, err := treeOf(root)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// wantBorn tells whether a root has everything of ourConfig.
func wantBorn(t *testing.T, root string) {
	t.Helper()
	for at, want := range map[string]string{
		"etc/motd": "from our server\n", "etc/systemd/system/born.service": "Description=Born",
		ignitionPreset: "enable born.service",
		"etc/machine-config-daemon/node-annotations.json": `rendered-worker-`,
		"etc/ignition-machine-config-encapsulated.json":   `"kind":"MachineConfig"`,
	} {
		text, err := os.ReadFile(filepath.Join(root, at))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s is %q, %v; want %q", at, text, err, want)
		}
	}
	// The file's name depends on the Ignition.
	keys, err := filepath.Glob(filepath.Join(root, "home/core/.ssh/authorized_keys.d/*ignition"))
	if err != nil || len(keys) != 1 {
		t.Errorf("core's keys are in %q, %v", keys, err)
	}
	for at, want := range map[string]string{
		"etc/born/large": "-rw-------", "etc/app.d": "drwx------",
		"etc/born/link": "Lrwxrwxrwx",
	} {
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil || info.Mode().String() != want {
			t.Errorf("%s is %v, %v; want %s", at, info, err, want)
		}
	}
}

// TestAMachineIsBornOfATokenAndOfNothingElse boots machines for the first time, with tokens good and bad. A refused
// machine is left as it was, Ignition has asked once and ended with an error, and its next boot is a first boot again:
// it is born as soon as its token is good.
func TestAMachineIsBornOfATokenAndOfNothingElse(t *testing.T) {
	const anHour = time.Hour
	for name, n := range judges(t) {
		for _, c := range []struct {
			because string
			// shown is what the machine has of a token; change is what the server keeps of it, nil for nothing.
			shown  func(join.Token) string
			change func(*server, *v1alpha1.ProvisioningToken) *v1alpha1.ProvisioningToken
			status int
			// mend makes the same token good; nil where a machine needs another one.
			mend func(*server, *v1alpha1.ProvisioningToken)
		}{
			{because: "a good token", status: 200},
			{because: "no token", shown: func(join.Token) string { return "" }, status: 401},
			{because: "a token of another's secret", shown: func(t join.Token) string { return "bunsen." + t.ID + "." + strings.Repeat("A", 43) }, status: 401},
			{
				because: "a token that the server does not know yet", status: 401,
				change: func(*server, *v1alpha1.ProvisioningToken) *v1alpha1.ProvisioningToken { return nil },
				mend:   func(s *server, k *v1alpha1.ProvisioningToken) { s.kept[k.Name] = k; s.restart() },
			},
			{
				because: "a token that has expired", status: 401,
				change: func(s *server, k *v1alpha1.ProvisioningToken) *v1alpha1.ProvisioningToken {
					s.later(anHour)
					return k
				},
				mend: func(s *server, _ *v1alpha1.ProvisioningToken) { s.later(-anHour) },
			},
			{
				because: "a revoked token", status: 403,
				change: func(_ *server, k *v1alpha1.ProvisioningToken) *v1alpha1.ProvisioningToken {
					k.Spec.Revoked = true
					return k
				},
			},
			{
				because: "a token of another pool", status: 403,
				change: func(_ *server, k *v1alpha1.ProvisioningToken) *v1alpha1.ProvisioningToken {
					k.Spec.Pool = "infra"
					return k
				},
			},
		} {
			t.Run(name+", "+c.because, func(t *testing.T) {
				t.Parallel()
				s := newServer(t)
				s.serve()
				tok, kept := s.grant(join.TokenOptions{Pool: "worker", TTL: anHour})
				is := kept
				if c.change != nil {
					is = c.change(s, kept)
				}
				if is != nil {
					s.kept[is.Name] = is
				}
				s.start()
				text := tok.String()
				if c.shown != nil {
					text = c.shown(tok)
				}
				config, root := s.pointer(text, n.reads), n.empty(t)
				if c.status != 200 {
					n.refused(t, s, root, config, c.status)
				}
				if c.status == 200 || c.mend != nil {
					if c.mend != nil {
						c.mend(s, kept)
					}
					n.born(t, s, root, config)
				}
			})
		}
	}
}

// refused boots a machine that may not be born.
func (n newborn) refused(t *testing.T, s *server, root string, config []byte, status int) {
	t.Helper()
	before := looks(t, root)
	_, have := s.since(0)
	log, err := n.start(t, root, config)
	if err == nil {
		t.Fatalf("Ignition ended well:\n%s", log)
	}
	got, _ := s.since(have)
	if len(got) != 1 || got[0].Status != status || got[0].Action != "refuse" || attempts(log) != 1 {
		t.Errorf("the server answered %+v, want one refusal with %d; Ignition asked %d times:\n%s", got, status,
			attempts(log), log)
	}
	if differ := difference(before, looks(t, root)); len(differ) > 0 {
		t.Errorf("a refused machine was changed:\n%s", strings.Join(differ, "\n"))
	}
}

// born boots a machine that has to be born, and returns Ignition's log.
func (n newborn) born(t *testing.T, s *server, root string, config []byte) string {
	t.Helper()
	log, err := n.start(t, root, config)
	n.wantServed(t, s, root, log, err)
	return log
}

// wantServed tells whether a boot ended well, and the server knows of it.
func (n newborn) wantServed(t *testing.T, s *server, root, log string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v:\n%s", err, log)
	}
	wantBorn(t, root)
	got, _ := s.since(0)
	if i := slices.IndexFunc(got, func(a audited) bool { return a.Action == "serve" }); i < 0 || !got[i].Complete ||
		got[i].Version != string(n.speaks) {
		t.Errorf("the server answered %+v, want %s served", got, n.speaks)
	}
}

// deaf listens in a server's place.
func deaf(t *testing.T, address string) *net.TCPListener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*net.TCPListener)
}

// hangUp takes n connections and says nothing, and gives the address up.
func hangUp(t *testing.T, l *net.TCPListener, n int) {
	t.Helper()
	err := l.SetDeadline(time.Now().Add(patience))
	for range n {
		if err != nil {
			break
		}
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			err = c.Close()
		}
	}
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestATokenOfOneUseGivesBirthToOneMachine has two machines with the same token.
func TestATokenOfOneUseGivesBirthToOneMachine(t *testing.T) {
	for name, n := range judges(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.serve()
			tok, kept := s.grant(join.TokenOptions{Pool: "worker", Uses: 1, TTL: time.Hour})
			s.kept[kept.Name] = kept
			s.start()
			config := s.pointer(tok.String(), n.reads)
			n.born(t, s, n.empty(t), config)
			n.refused(t, s, n.empty(t), config, 403)
			s.restart() // which the count outlives
			n.refused(t, s, n.empty(t), config, 403)
		})
	}
}

// TestAMachineThatComesTooEarlyWaits starts machines before anything is rendered, and before the server runs: Ignition
// goes on asking, and the same boot ends well.
func TestAMachineThatComesTooEarlyWaits(t *testing.T) {
	for name, n := range judges(t) {
		for _, early := range []string{"nothing is rendered", "the server does not run"} {
			t.Run(name+", "+early, func(t *testing.T) {
				t.Parallel()
				s := newServer(t)
				tok, kept := s.grant(join.TokenOptions{Pool: "worker", Uses: 1, TTL: time.Hour})
				s.kept[kept.Name] = kept
				config, root := s.pointer(tok.String(), n.reads), n.empty(t)
				if early == "nothing is rendered" {
					s.start()
				} else {
					s.serve()
				}
				type end struct {
					log string
					err error
				}
				ended := make(chan end, 1)
				var first *net.TCPListener
				if early == "the server does not run" {
					first = deaf(t, s.address)
				}
				go func() {
					log, err := n.start(t, root, config)
					ended <- end{log, err}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if first != nil {
					hangUp(t, first, 3)
					s.start()
				} else {
					if err := s.await(ctx, 3); err != nil { // three times it was told to wait
						t.Fatal(err)
					}
					s.serve()
				}
				e := <-ended
				n.wantServed(t, s, root, e.log, e.err)
				if attempts(e.log) < 4 {
					t.Errorf("Ignition asked %d times:\n%s", attempts(e.log), e.log)
				}
				if answers, _ := s.since(0); early == "nothing is rendered" &&
					(answers[0].Status != 503 || answers[2].Status != 503) {
					t.Errorf("the server answered %+v", answers)
				}
			})
		}
	}
}

// TestEveryPointerIsUnderstood boots a machine with each version of the pointer that its Ignition reads, as it is and
// with gzip.
func TestEveryPointerIsUnderstood(t *testing.T) {
	for name, n := range judges(t) {
		for _, version := range join.PointerVersions() {
			if (version == mcs.V2_2) != (n.speaks == mcs.V2_2) || string(version) > string(n.speaks) {
				continue
			}
			headers := string(version) >= string(mcs.V3_1)
			for _, zipped := range []bool{false, true} {
				if zipped && !headers {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, gzip %t", name, version, zipped), func(t *testing.T) {
					t.Parallel()
					s := newServer(t)
					s.serve()
					tok, kept := s.grant(join.TokenOptions{Pool: "worker", TTL: time.Hour})
					s.kept[kept.Name] = kept
					s.start()
					config := s.pointer(tok.String(), func(p *join.Pointer) { p.Version, p.Gzip = version, zipped })
					log := n.born(t, s, n.empty(t), config)
					answers, _ := s.since(0)
					if want := map[bool]string{true: "gzip"}[zipped]; len(answers) != 1 || answers[0].Encoding != want {
						t.Errorf("the server answered %+v, want encoding %q", answers, want)
					}
					// What stands in a URL stands in the machine's journal: why headers are the way wherever there are
					// any.
					if told := strings.Contains(log, tok.Secret); told == headers {
						t.Errorf("the token is in Ignition's log: %t\n%s", told, log)
					}
				})
			}
		}
	}
}

// TestSecretsAreBornOfATokenOfTheNode has a config with a secret. A machine with a token of its pool is born without
// it, and with a note of that for its daemon; one with a token of its own has it.
func TestSecretsAreBornOfATokenOfTheNode(t *testing.T) {
	const secret = "etc/born/private.key"
	for name, n := range judges(t) {
		for _, node := range []string{"", "worker-7"} {
			t.Run(fmt.Sprintf("%s, node %q", name, node), func(t *testing.T) {
				t.Parallel()
				s := newServer(t)
				s.serve()
				tok, kept := s.grant(join.TokenOptions{Pool: "worker", Node: node, TTL: time.Hour})
				s.kept[kept.Name] = kept
				s.start()
				root := n.empty(t)
				n.born(t, s, root, s.pointer(tok.String(), n.reads))
				text, err := os.ReadFile(filepath.Join(root, secret))
				if has := string(text) == "nobody else's\n"; has != (node != "") {
					t.Errorf("%s is %q, %v", secret, text, err)
				}
				note, err := os.ReadFile(filepath.Join(root, "etc/machine-config-daemon/node-annotations.json"))
				if err != nil || strings.Contains(string(note), v1alpha1.WithheldAnnotation) != (node == "") {
					t.Errorf("the daemon is told %q, %v", note, err)
				}
			})
		}
	}
}
