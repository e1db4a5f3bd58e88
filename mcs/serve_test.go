package mcs

import (
	"errors"
	"strings"
	"testing"
	"testing/quick"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// poolOf is a pool whose newest config is newest, which whole ran all over last, with a rollout's record.
func poolOf(newest, ran, record, choice string) mcfgv1.MachineConfigPool {
	var pool mcfgv1.MachineConfigPool
	pool.Name = "worker"
	pool.Spec.Configuration.Name, pool.Status.Configuration.Name = newest, ran
	pool.Annotations = map[string]string{v1alpha1.RolloutAnnotation: record}
	if choice != "" {
		pool.Annotations[v1alpha1.ServeAnnotation] = choice
	}
	return pool
}

func TestWhichConfigAPoolServes(t *testing.T) {
	const healthy, newest = v1alpha1.ServeHealthy, v1alpha1.ServeNewest
	for _, c := range []struct {
		because                  string
		newest, ran, record, own string
		choice                   string
		want                     string
		says                     string // what why has, empty for nil
	}{
		{"nothing is rendered yet", "", "", "", "", healthy, "", "nothing is rendered"},
		{"a new pool was well with nothing, and its first machine has to boot something", "b", "", "", "", healthy, "b", ""},
		{"the same while its first rollout is under way", "b", "", `{"config":"b"}`, "", healthy, "b", ""},
		{"no rollout was ever remembered: what the whole pool ran", "b", "a", "", "", healthy, "a", ""},
		{"and by choice the newest", "b", "a", "", "", newest, "b", ""},
		{"while a rollout is under way, what the pool was well with", "b", "a", `{"config":"b","healthy":"a"}`, "", healthy, "a", ""},
		{"every node ran it, and not every one is well with it yet", "b", "b", `{"config":"b","healthy":"a"}`, "", healthy, "a", ""},
		{"by choice the one that is being rolled out", "b", "a", `{"config":"b","healthy":"a"}`, "", newest, "b", ""},
		{"the pool's own choice wins", "b", "a", `{"config":"b","healthy":"a"}`, newest, healthy, "b", ""},
		{"either way", "b", "a", `{"config":"b","healthy":"a"}`, healthy, newest, "a", ""},
		{"the rollout is over and well", "b", "b", `{"config":"b","healthy":"b"}`, "", healthy, "b", ""},
		{"it halted", "b", "a", `{"config":"b","healthy":"a","verdict":"Halted"}`, "", healthy, "a", ""},
		{"it halted, and the newest was chosen: not that", "b", "a", `{"config":"b","healthy":"a","verdict":"Halted"}`, "", newest, "a", ""},
		{"it was taken back", "b", "a", `{"config":"b","healthy":"a","back":"a","verdict":"Reverted"}`, "", newest, "a", ""},
		{"the first rollout halted: nothing is better than that", "b", "", `{"config":"b","verdict":"Halted"}`, "", healthy, "", "b was halted"},
		{"even where every node ran it", "b", "b", `{"config":"b","verdict":"Halted"}`, "", newest, "", "bunsen retry pool/worker"},
		{"a newer one came after a halt, and its rollout has not begun", "c", "a", `{"config":"b","healthy":"a","verdict":"Halted"}`, "", newest, "c", ""},
		{"the same, in a pool that was never well", "c", "", `{"config":"b","verdict":"Reverted"}`, "", healthy, "c", ""},
		{"the newest was taken away by hand", "", "a", `{"config":"b","healthy":"a"}`, "", newest, "a", ""},
		{"a record that cannot be read may hide a halt: what the whole pool ran", "b", "a", "{", "", newest, "a", "reading annotation bunsen.dev/rollout"},
		{"and nothing where there is no such config", "b", "", "{", "", newest, "", "not known"},
		{"a choice that is none is told, and careful", "b", "a", `{"config":"b","healthy":"a"}`, "latest", newest, "a", `"latest"`},
		{"also where there is nothing to serve", "", "", "", "latest", newest, "", `"latest"`},
	} {
		name, why := ConfigToServe(poolOf(c.newest, c.ran, c.record, c.own), c.choice)
		text := ""
		if why != nil {
			text = why.Error()
		}
		if name != c.want || !strings.Contains(text, c.says) || (text == "") != (c.says == "") {
			t.Errorf("%s: got %q and %q, want %q and %q", c.because, name, text, c.want, c.says)
		}
	}
}

func TestAPoolWithoutAConfigWaitsForOne(t *testing.T) {
	if _, why := ConfigToServe(poolOf("", "", "", ""), v1alpha1.ServeHealthy); !errors.Is(why, ErrNothingRendered) {
		t.Errorf("got %v", why)
	}
}

// Whatever a pool says: no new machine boots a config that a rollout halted on or was taken back from, and where there
// is no config there is a reason.
func TestNoMachineBootsWhatARolloutHaltedOn(t *testing.T) {
	names := []string{"", "a", "b", "c"}
	choices := []string{"", v1alpha1.ServeHealthy, v1alpha1.ServeNewest, "odd"}
	verdicts := []v1alpha1.RolloutVerdict{"", v1alpha1.RolloutHalted, v1alpha1.RolloutReverted, "Unheard"}
	property := func(newest, ran, config, healthy, verdict, own, choice uint8) bool {
		record := v1alpha1.RolloutRecord{
			Config: names[config%4], Healthy: names[healthy%4],
			RolloutEnd: v1alpha1.RolloutEnd{Verdict: verdicts[verdict%4]},
		}
		name, why := ConfigToServe(poolOf(names[newest%4], names[ran%4], record.String(), choices[own%4]),
			choices[choice%4])
		bad := record.Config != "" && record.Verdict != "" && name == record.Config
		return !bad && (name != "" || why != nil)
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 5000}); err != nil {
		t.Error(err)
	}
}

// TestServeWithoutRecord: a pool that the controller has just created again serves its newest config only where that
// was chosen.
func TestServeWithoutRecord(t *testing.T) {
	for sentence, c := range map[string]struct {
		record, choice, want string
		why                  error
	}{
		"the controller has recorded nothing yet":        {"", v1alpha1.ServeHealthy, "", ErrNoRecord},
		"the newest config was chosen":                   {"", v1alpha1.ServeNewest, "b", nil},
		"the controller has found what the nodes run":    {`{"config":"b","healthy":"a"}`, v1alpha1.ServeHealthy, "a", nil},
		"the controller has found that no node runs one": {`{"config":"b"}`, v1alpha1.ServeHealthy, "b", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			pool := poolOf("b", "", c.record, "")
			pool.Annotations[v1alpha1.TargetAnnotation] = `{"config":"b"}`
			if name, why := ConfigToServe(pool, c.choice); name != c.want || !errors.Is(why, c.why) {
				t.Errorf("got %q and %v, want %q and %v", name, why, c.want, c.why)
			}
		})
	}
}
