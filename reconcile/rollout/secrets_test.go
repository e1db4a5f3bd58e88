package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	workerA = "rendered-worker-0a"
	workerB = "rendered-worker-0b"
)

func secretsPool(record v1alpha1.RolloutRecord) *mcfgv1.MachineConfigPool {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{
		Name:        "worker",
		Annotations: map[string]string{v1alpha1.RolloutAnnotation: record.String()},
	}}
	p.Spec.Configuration.Name = workerA
	return p
}

func published(revisions ...string) poolstate.Published {
	p := poolstate.Published{Revisions: map[string]v1alpha1.SecretsRevision{}, Refers: func(config string) bool {
		return config == workerA
	}}
	for i := 0; i < len(revisions); i += 2 {
		p.Revisions[revisions[i]] = v1alpha1.SecretsRevision{Revision: revisions[i+1]}
	}
	return p
}

// healthyWith is the record of a pool that was healthy with workerA and a revision of its secrets.
func healthyWith(revision string) v1alpha1.RolloutRecord {
	at := metav1.NewTime(noon.Add(-time.Hour))
	r := v1alpha1.RolloutRecord{Began: at, Ended: &at}
	r.SetTarget(v1alpha1.NewConfigVersion(workerA, revision))
	r.SetLastHealthy(v1alpha1.NewConfigVersion(workerA, revision))
	return r
}

func runsAt(name, at string) poolstate.Node {
	return poolstate.Node{Name: name, State: v1alpha1.StateDone, Config: poolstate.Configs{
		Current: version(at),
		Desired: version(at),
	}}
}

// TestASecretsRevisionIsATarget: a new revision of the secrets of a config is rolled out like a new config.
func TestASecretsRevisionIsATarget(t *testing.T) {
	for sentence, c := range map[string]struct {
		record  v1alpha1.RolloutRecord
		secrets poolstate.Published
		assign  string // config that the first node is assigned; empty for none
		cause   poolstate.Cause
		says    string
	}{
		"nodes are assigned a new revision, one at a time":                 {healthyWith("r1"), published(workerA, "r2"), workerA + "@r2", "", ""},
		"the same revision is no news":                                     {healthyWith("r1"), published(workerA, "r1"), "", "", ""},
		"a config without references has no revision":                      {healthyWith("r1"), published(workerB, "r2"), "", "", ""},
		"a deleted ConfigMap changes nothing":                              {healthyWith("r1"), published(), "", "", ""},
		"a config with references and no revision is assigned to no node":  {v1alpha1.RolloutRecord{}, published(), "", poolstate.CauseSecrets, "no machine-config-server has published"},
		"secrets that the server cannot resolve are named, with their fix": {v1alpha1.RolloutRecord{}, withProblem(), "", poolstate.CauseSecrets, `secret:registry/pull of /etc/pull.json: Secret "registry" has no key "pull": add it (NotFound)`},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := poolstate.Read(secretsPool(c.record), nil, c.secrets, 2)
			f.Nodes = []poolstate.Node{runsAt("n0", workerA+"@r1"), runsAt("n1", workerA+"@r1")}
			w := rollout.Next(f, noon)
			if c.cause == "" && c.assign == "" && len(w.Blocks)+len(w.Assign) > 0 {
				t.Errorf("there is nothing to do, and the decision is %+v %v", w.Assign, w.Blocks)
			}
			if c.assign != "" && (len(w.Assign) != 1 || w.Assign[0].Config != version(c.assign) ||
				w.Assign[0].Node != "n0" ||
				w.Record.Target() != version(c.assign)) {
				t.Errorf("assigned %+v with record %s, want n0 to get %s alone", w.Assign, w.Record.Target(), c.assign)
			}
			if c.cause == "" {
				return
			}
			if len(w.Blocks) != 1 || w.Blocks[0].Cause != c.cause || !strings.Contains(w.Blocks[0].Reason, c.says) ||
				len(w.Assign) > 0 || w.Record.Config != c.record.Config {
				t.Errorf("the decision is %+v %v, want only a block %s that says %q", w.Assign, w.Blocks, c.cause,
					c.says)
			}
			if waits := rollout.Explain(f, w, noon); len(waits) != 2 || waits[0].Cause != c.cause {
				t.Errorf("nodes wait because of %v, want %s for both", waits, c.cause)
			}
		})
	}
}

func withProblem() poolstate.Published {
	p := published(workerA, "")
	p.Revisions[workerA] = v1alpha1.SecretsRevision{Problems: []v1alpha1.SecretProblem{
		{Path: "/etc/pull.json", Reference: "secret:registry/pull", Reason: v1alpha1.SecretNotFound, Message: `Secret "registry" has no key "pull": add it`},
	}}
	return p
}

// TestAPoolReturnsToTheSecretsBefore: the verdict is about the revision, and the server's record names both.
func TestAPoolReturnsToTheSecretsBefore(t *testing.T) {
	failed := poolstate.Node{
		Name: "n0", Config: poolstate.Configs{Current: version(workerA + "@r1"), Desired: version(workerA + "@r2")},
		State: v1alpha1.StateDegraded,
	}
	failed.Failure = v1alpha1.Failure{Config: workerA, Secrets: "r2", Cause: v1alpha1.FailureRejected}
	was := healthyWith("r1")
	began := v1alpha1.RolloutRecord{Began: metav1.NewTime(noon.Add(-time.Minute))}
	began.SetTarget(version(workerA + "@r2"))
	began.SetLastHealthy(was.LastHealthy())
	for sentence, c := range map[string]struct {
		healthy string
		secrets poolstate.Published
		back    string
		verdict v1alpha1.RolloutVerdict
	}{
		"to the revision before, which nodes have on disk":                  {workerA + "@r1", published(workerA, "r2"), workerA + "@r1", v1alpha1.RolloutReverted},
		"to another config with the revision that the server has today":     {workerB + "@r1", published(workerA, "r2", workerB, "r7"), workerB + "@r7", v1alpha1.RolloutReverted},
		"not to the same config without a revision, which has none to give": {workerA, published(workerA, "r2"), "", v1alpha1.RolloutHalted},
	} {
		t.Run(sentence, func(t *testing.T) {
			record := began
			record.SetLastHealthy(version(c.healthy))
			f := poolstate.Read(secretsPool(record), nil, c.secrets, 2)
			f.Care.Pace.Failures = schedule.Failures{After: 1, Action: v1alpha1.FailureRevert}
			f.Nodes = []poolstate.Node{failed, runsAt("n1", workerA+"@r2")}
			w := rollout.Next(f, noon)
			if w.Record.Verdict != c.verdict || w.Record.ReturnsTo() != version(c.back) {
				t.Fatalf("the verdict is %q, back to %q; want %q and %q", w.Record.Verdict, w.Record.ReturnsTo(),
					c.verdict, c.back)
			}
			for _, a := range w.Assign {
				if a.Config != version(c.back) {
					t.Errorf("%s is assigned %s, want %s", a.Node, a.Config, c.back)
				}
			}
			if again, err := v1alpha1.ParseRolloutRecord(w.Record.String()); err != nil ||
				again.String() != w.Record.String() || again.ReturnsTo() != version(c.back) {
				t.Errorf("the record reads back as %s, %v", again, err)
			}
		})
	}
}

// TestPausedPoolsKeepTheirSecrets: a pause stops new secrets as it stops new configs.
func TestPausedPoolsKeepTheirSecrets(t *testing.T) {
	f := poolstate.Read(secretsPool(healthyWith("r1")), nil, published(workerA, "r2"), 1)
	f.Paused, f.Nodes = true, []poolstate.Node{runsAt("n0", workerA+"@r1")}
	if w := rollout.Next(f, noon); len(w.Assign) > 0 || len(w.Blocks) == 0 ||
		w.Blocks[0].Cause != poolstate.CausePaused {
		t.Errorf("a paused pool assigns %v, blocked by %v", w.Assign, w.Blocks)
	}
}
