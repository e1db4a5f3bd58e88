package agent_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
)

// keyFile of rendered-s takes a drain and a reboot; policyFile takes a reload only.
const keyFile = "/etc/app/key"

// vault is what servers have of the secrets of rendered-s.
type vault struct {
	revision string
	paths    []string
	// down: no server answers.
	down bool
	// spoil changes an answer.
	spoil func(*v1alpha1.NodeSecrets)
	// seen are the values that were sent.
	seen []string
}

// valueAt is the content of a file at a revision.
func valueAt(p, revision string) string {
	return "canary-" + strings.ReplaceAll(p, "/", "-") + "-" + revision
}

// answer implements secrets.Source.
func (v *vault) answer(config string) (v1alpha1.NodeSecrets, error) {
	if v.down {
		return v1alpha1.NodeSecrets{}, errors.New("no server answers")
	}
	a := v1alpha1.NodeSecrets{Config: config, Revision: v.revision}
	for _, p := range v.paths {
		v.seen = append(v.seen, valueAt(p, v.revision))
		a.Files = append(a.Files, v1alpha1.SecretFile{Path: p, Contents: []byte(valueAt(p, v.revision))})
	}
	if v.spoil != nil {
		v.spoil(&a)
	}
	return a, nil
}

// secretRig is a node in rendered-a, with rendered-s whose files at the paths refer to secrets.
func secretRig(t *testing.T, paths ...string) (*rig, *vault) {
	r := newRig(t)
	v := &vault{revision: "r1", paths: paths}
	r.c.onSecrets = v.answer
	var files []string
	for _, p := range paths {
		files = append(files, fmt.Sprintf(`{"path":%q,"overwrite":true,"contents":{"source":%q}}`, p,
			machineconfig.TemplateURL("${secret:app/key}")))
	}
	r.c.add(t, "rendered-s", `"storage":{"files":[`+strings.Join(files, ",")+`]}`)
	r.c.desire("rendered-a")
	r.must(r.settle())
	t.Cleanup(func() { r.noLeak(v) })
	return r, v
}

// desireAt is the rollout's assignment.
func (c *cluster) desireAt(at string) {
	of := v1alpha1.ParseConfigVersion(at)
	c.annotations[v1alpha1.DesiredConfigAnnotation] = of.Config
	c.annotations[v1alpha1.DesiredSecretsAnnotation] = of.Secrets
}

// noLeak looks for each value that was sent, as it is, in base64, and as a digest, in all that was told, and on the
// disk outside of the daemon's own directory and the files themselves.
func (r *rig) noLeak(v *vault) {
	r.t.Helper()
	status, err := json.Marshal(r.published.status)
	r.must(err)
	told := map[string]string{
		"the log": r.log.String(), "events": fmt.Sprint(r.events), "annotations": fmt.Sprint(r.c.told, r.c.annotations),
		"metrics":               fmt.Sprint(r.counts),
		"the MachineConfigNode": fmt.Sprint(r.published.writes) + string(status),
		"what the machine did":  fmt.Sprint(r.m.Log), "the record": r.disk(host.RecordPath),
		"the task": r.disk(host.StateDir + "/desired.json"), "the rejection": r.disk(host.StateDir + "/rejected.json"),
		"the difference": r.disk(host.StateDir + "/drift/etc%2Fcontainers%2Fpolicy.json.diff"),
	}
	var disk strings.Builder
	for line := range strings.Lines(r.tree()) {
		if p, _, _ := strings.Cut(line, " "); p != keyFile && p != policyFile {
			disk.WriteString(line)
		}
	}
	told["the disk"] = disk.String()
	for _, value := range append(v.seen, "edited-canary") {
		sum := sha256.Sum256([]byte(value))
		for form, text := range map[string]string{
			"value":  value,
			"base64": base64.StdEncoding.EncodeToString([]byte(value))[:16], "digest": hex.EncodeToString(sum[:])[:8],
		} {
			for where, what := range told {
				if form == "digest" && where == "the disk" { // the disk of hosttest shows digests of nothing else
					continue
				}
				if strings.Contains(what, text) {
					r.t.Errorf("%s has the %s of %q: %s", where, form, value, what)
				}
			}
		}
	}
}

// copyOf is the machine's copy.
func (r *rig) copyOf() secrets.Copy { return secrets.ParseCopy([]byte(r.disk(secrets.Path))) }

func TestSecrets(t *testing.T) {
	for says, check := range map[string]func(*rig, *vault){
		"a config with secrets is applied with their contents, with the action of the path, and the record has the " +
			"reference": func(r *rig, v *vault) {
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
			if r.disk(policyFile) != valueAt(policyFile, "r1") || r.c.asked != 1 ||
				!strings.Contains(r.disk(host.RecordPath), "vnd.bunsen.template") {
				r.t.Error(r.disk(policyFile), r.c.asked, r.disk(host.RecordPath))
			}
			if r.c.annotations[v1alpha1.CurrentConfigAnnotation] != "rendered-s" ||
				r.c.annotations[v1alpha1.CurrentSecretsAnnotation] != "r1" ||
				r.published.status.ConfigVersion.Current != "rendered-s" {
				r.t.Error(r.c.annotations, r.published.status.ConfigVersion)
			}
		},
		"a new revision costs only the action of its path, and the contents of two revisions stay": func(r *rig,
			v *vault,
		) {
			for _, revision := range []string{"r1", "r2", "r3"} {
				v.revision = revision
				r.c.desireAt("rendered-s@" + revision)
				r.must(r.settle())
				r.c.says(r.t, "Done", "rendered-s@"+revision)
			}
			kept := r.copyOf()
			if _, old := kept.Contents["rendered-s@r1"]; old || len(kept.Contents) != 2 ||
				kept.InForce != "rendered-s@r3" || kept.Before != "rendered-s@r2" {
				r.t.Errorf("%+v", kept)
			}
			if log := strings.Join(r.m.Log, "; "); strings.Contains(log, "reboot") ||
				strings.Count(log, "reload crio.service") != 4 || strings.Contains(fmt.Sprint(r.c.told),
				"desiredDrain=drain") {
				r.t.Error(log, r.c.told)
			}
		},
		"while the server has another revision, the node waits, says so, and is not drained": func(r *rig, v *vault) {
			v.revision = "r2"
			r.c.desireAt("rendered-s@r1")
			for range 3 {
				_, err := syncOnce(r.t.Context(), r.a)
				if !errors.Is(err, report.ErrUnreachable) {
					r.t.Fatal(err)
				}
				time.Sleep(time.Hour)
			}
			r.c.says(r.t, "Working", "rendered-a", "waiting for the secrets of rendered-s@r1", `has revision "r2"`,
				`is assigned "r1"`)
			if r.disk(policyFile) != "a" || strings.Contains(fmt.Sprint(r.c.told), "drain-") ||
				strings.Contains(r.log.String(), "a reload") {
				r.t.Error(r.disk(policyFile), r.c.told)
			}
			r.c.desireAt("rendered-s@r2")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r2")
		},
		"a config without a revision is in force without these files, and the node gets them with the revision": func(
			r *rig, v *vault,
		) {
			r.c.desireAt("rendered-s")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s")
			if _, has := r.c.annotations[v1alpha1.CurrentSecretsAnnotation]; has || r.c.asked != 0 ||
				strings.Contains(r.disk(policyFile), "secret") {
				r.t.Error(r.c.annotations, r.disk(policyFile))
			}
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
		},
		"an annotation that is gone takes no secret away": func(r *rig, v *vault) {
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			delete(r.c.annotations, v1alpha1.DesiredSecretsAnnotation)
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
			if r.disk(policyFile) != valueAt(policyFile, "r1") {
				r.t.Error(r.disk(policyFile))
			}
		},
		"without servers and without the API server, the machine finds drift after a start, and shows no content": func(
			r *rig, v *vault,
		) {
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			v.down = true
			r.m.Put(policyFile, "edited-canary")
			r.start(r.m.Host())
			r.must(r.settle())
			r.c.says(r.t, "Degraded", "rendered-s@r1", "content mismatch", policyFile)
			if d := r.c.annotations[v1alpha1.DriftAnnotation]; !strings.Contains(d, `"secret":true`) ||
				strings.Contains(d, "digest") || !strings.Contains(d, `"config":"rendered-s"`) {
				r.t.Error(d)
			}
			if d := r.disk(host.StateDir + "/drift/etc%2Fcontainers%2Fpolicy.json.diff"); !strings.Contains(d,
				"(hidden: the contents are secret)") || strings.Contains(d, "bytes") {
				r.t.Error(d)
			}
			r.c.down = errRefused
			r.start(r.m.Host())
			if err := r.settle(); !errors.Is(err, report.ErrUnreachable) || r.c.asked != 1 {
				r.t.Error(err, r.c.asked)
			}
		},
		"a bad revision is rolled back by the health check, and the revision before is there without a server": func(
			r *rig, v *vault,
		) {
			l := r.watched()
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			l.kubeletDies = poison{policyFile, "r2"}
			v.revision = "r2"
			r.c.desireAt("rendered-s@r2")
			r.must(r.settle())
			r.c.says(r.t, "Degraded", "rendered-s@r1", "not healthy", "back in rendered-s@r1")
			f, err := v1alpha1.ParseFailure(r.c.annotations[v1alpha1.FailureAnnotation])
			if err != nil || f.Config != "rendered-s" || f.Secrets != "r2" || f.Cause != v1alpha1.FailureRejected {
				r.t.Errorf("%+v, %v", f, err)
			}
			r.m.PowerCut(rand.New(rand.NewPCG(1, 1)))
			r.start(r.m.Host())
			v.down = true
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
			if r.disk(policyFile) != valueAt(policyFile, "r1") || len(r.copyOf().Contents) != 1 {
				r.t.Error(r.disk(policyFile), r.copyOf())
			}
		},
		"an update that has begun needs no server": func(r *rig, v *vault) {
			r.c.drains = false
			r.c.add(r.t, "rendered-s", `"storage":{"files":[{"path":"`+keyFile+`","contents":{"source":"`+
				machineconfig.TemplateURL("${secret:app/key}")+`"}}]}`)
			v.paths = []string{keyFile}
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			if r.c.annotations[v1alpha1.DesiredDrainAnnotation] != "drain-rendered-s" {
				r.t.Fatal(r.c.annotations)
			}
			v.revision, v.down, r.c.drains = "r2", true, true
			r.c.annotations[v1alpha1.LastAppliedDrainAnnotation] = "drain-rendered-s"
			r.start(r.m.Host())
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
			if r.disk(keyFile) != valueAt(keyFile, "r1") {
				r.t.Error(r.disk(keyFile))
			}
		},
		"a config without secrets removes the files and, after one more, the copy": func(r *rig, v *vault) {
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			r.c.desireAt("rendered-b")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-b")
			if r.c.annotations[v1alpha1.CurrentSecretsAnnotation] != "" || len(r.copyOf().Contents) != 1 {
				r.t.Error(r.c.annotations, r.copyOf())
			}
			r.c.desireAt("rendered-a")
			r.must(r.settle())
			if !strings.Contains(r.disk(secrets.Path), "not exist") {
				r.t.Error(r.disk(secrets.Path))
			}
		},
		"a Node that was deleted gets both annotations again": func(r *rig, v *vault) {
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			clear(r.c.annotations)
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
			if r.c.annotations[v1alpha1.DesiredSecretsAnnotation] != "r1" ||
				r.c.annotations[v1alpha1.DesiredConfigAnnotation] != "rendered-s" {
				r.t.Error(r.c.annotations)
			}
		},
		"a copy that was lost comes from the server again": func(r *rig, v *vault) {
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			r.m.Put(secrets.Path, "{")
			r.m.Put(policyFile, "edited-canary")
			r.start(r.m.Host())
			r.must(r.settle())
			r.c.says(r.t, "Degraded", "rendered-s@r1", "content mismatch")
		},
		"a copy that was lost, and that no server has, is what is on the machine": func(r *rig, v *vault) {
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			r.must(r.m.Host().Files.Remove(secrets.Path))
			v.revision = "r2"
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
			if string(r.copyOf().Contents["rendered-s@r1"][policyFile]) != valueAt(policyFile, "r1") {
				r.t.Error(r.copyOf())
			}
		},
		"a copy that others can read, or a link, is not used and does not stay": func(r *rig, v *vault) {
			r.c.desireAt("rendered-s@r1")
			r.must(r.settle())
			files := r.m.Host().Files
			r.must(files.Write("/etc/trap", host.Entry{Kind: host.File, Mode: 0o644}, []byte(r.disk(secrets.Path))))
			r.must(files.Link(secrets.Path, host.Entry{Kind: host.Link, Target: "/etc/trap"}))
			before := r.disk("/etc/trap")
			for _, mode := range []uint32{0, 0o644} {
				if mode != 0 {
					r.must(files.Write(secrets.Path, host.Entry{Kind: host.File, Mode: mode},
						[]byte(r.disk(secrets.Path))))
				}
				asked := r.c.asked
				r.must(r.settle())
				if is, err := files.Stat(secrets.Path); err != nil || is.Kind != host.File || is.Mode != 0o600 ||
					r.c.asked == asked {
					r.t.Error(is, err, r.c.asked)
				}
			}
			if r.disk("/etc/trap") != before {
				r.t.Error("the daemon wrote through the link")
			}
			r.must(files.Remove("/etc/trap"))
		},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(secretRig(t, policyFile)) })
		})
	}
}

// TestHostileSecrets gives the daemon answers that no server should give: it waits, and writes nothing.
func TestHostileSecrets(t *testing.T) {
	big := make([]byte, v1alpha1.MaxSecretBytes+1)
	for says, c := range map[string]struct {
		spoil func(*v1alpha1.NodeSecrets)
		why   string
	}{
		"another config":     {func(a *v1alpha1.NodeSecrets) { a.Config = "rendered-x" }, `the secrets of "rendered-x"`},
		"no revision":        {func(a *v1alpha1.NodeSecrets) { a.Revision = "" }, `has revision ""`},
		"an older revision":  {func(a *v1alpha1.NodeSecrets) { a.Revision = "r0" }, `has revision "r0"`},
		"no files":           {func(a *v1alpha1.NodeSecrets) { a.Files = nil }, "did not send the secret of " + policyFile},
		"one more file":      {func(a *v1alpha1.NodeSecrets) { a.Files = append(a.Files, v1alpha1.SecretFile{Path: "/etc/shadow"}) }, `"/etc/shadow", which does not refer`},
		"another file":       {func(a *v1alpha1.NodeSecrets) { a.Files[0].Path = "/etc/containers/../shadow" }, "does not refer"},
		"a file twice":       {func(a *v1alpha1.NodeSecrets) { a.Files = append(a.Files, a.Files[0]) }, "two contents"},
		"too many bytes":     {func(a *v1alpha1.NodeSecrets) { a.Files[0].Contents = big }, "more than 4 MiB"},
		"a name of 100 KiB":  {func(a *v1alpha1.NodeSecrets) { a.Config = strings.Repeat("x\n", 50<<10) }, `x\nx\n`},
		"a path with escape": {func(a *v1alpha1.NodeSecrets) { a.Files[0].Path = "/etc/\x1b[2J" }, `"/etc/\x1b[2J"`},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, v := secretRig(t, policyFile)
				v.spoil = c.spoil
				before := r.m.Tree()
				r.c.desireAt("rendered-s@r1")
				for range 2 {
					if _, err := syncOnce(t.Context(), r.a); !errors.Is(err, report.ErrUnreachable) {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
				}
				r.c.says(t, "Working", "rendered-a", "waiting for the secrets of rendered-s@r1", c.why)
				if r.m.Tree() != before {
					t.Error("the machine changed")
				}
			})
		})
	}
}

// bornWithSecrets is a machine that first booted with a token of its own: with the files, without a record.
func bornWithSecrets(t *testing.T, server string) (*rig, *vault) {
	r, v := secretRig(t, policyFile)
	r.m = hosttest.NewMachine()
	r.start(r.m.Host())
	clear(r.c.annotations)
	r.c.told, v.revision = nil, server
	r.m.Put(policyFile, valueAt(policyFile, "r1"))
	r.m.Put(host.InitialAnnotationsPath,
		`{"machineconfiguration.openshift.io/currentConfig":"rendered-s","machineconfiguration.openshift.io/desiredConfig":"rendered-s","machineconfiguration.openshift.io/state":"Done","bunsen.dev/currentSecrets":"r1"}`)
	return r, v
}

func TestAMachineThatIsBornWithSecrets(t *testing.T) {
	for says, c := range map[string]struct {
		server string
		check  func(*rig, *vault)
	}{
		"reports their revision": {"r1", func(r *rig, v *vault) {
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
			if r.c.annotations[v1alpha1.DesiredSecretsAnnotation] != "r1" || len(r.m.Log) != 0 {
				r.t.Error(r.c.annotations, r.m.Log)
			}
		}},
		"compares them": {"r1", func(r *rig, v *vault) {
			r.m.Put(policyFile, "edited-canary")
			r.must(r.settle())
			r.c.says(r.t, "Degraded", "rendered-s@r1", "content mismatch")
		}},
		"gets the revision of today, when the server has moved on meanwhile": {"r2", func(r *rig, v *vault) {
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
			r.c.desireAt("rendered-s@r2")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r2")
			if r.disk(policyFile) != valueAt(policyFile, "r2") {
				r.t.Error(r.disk(policyFile))
			}
		}},
		"waits for a server": {"r1", func(r *rig, v *vault) {
			v.down = true
			if _, err := syncOnce(r.t.Context(), r.a); !errors.Is(err, report.ErrUnreachable) {
				r.t.Error(err)
			}
			v.down = false
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-s@r1")
		}},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.check(bornWithSecrets(t, c.server)) })
		})
	}
}
