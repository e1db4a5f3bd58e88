package state

import (
	"context"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// TaskPath is the file of the update under way. The file has the config, with references to secrets, and all other data
// that the daemon needs to finish the update without the API server.
const TaskPath = host.StateDir + "/desired.json"

// Task is the update under way, as last read from the cluster.
type Task struct {
	// Config is the desired config, with the annotations that name its commit, and the revision of its secrets.
	Config mcfgv1.MachineConfig `json:"config"`
	// Requester is who requested the config; zero if the controller did not report it.
	Requester v1alpha1.Requester `json:"asked,omitzero"`
	// Rules are the cluster's disruption policy and overrides.
	Rules plan.Rules `json:"rules"`
	// Node is the Node of the last read.
	Node report.Node `json:"node"`
	// Before records which parts were healthy right before the first step.
	Before health.Before `json:"before"`
	// Attempt counts how often the steps of this task were started.
	Attempt int `json:"attempt,omitempty"`
	// Staged is true if the last attempt staged another tree of the OS. Rewritten is the boot in which the daemon began
	// to write the config once more, after that OS had booted; "" for none.
	Staged    bool   `json:"staged,omitempty"`
	Rewritten string `json:"rewritten,omitempty"`
	// Drain is the request of the drain that the last attempt used; "" if none needed a drain.
	Drain string `json:"drain,omitempty"`
	// Checks counts the health checks of this attempt that started and did not end.
	Checks int `json:"looks,omitempty"`
}

// Attempt is one attempt to apply a config.
type Attempt struct {
	// Config is the name of the config, with the revision of its secrets.
	Config string
	// Number counts the attempts of one task.
	Number int
}

// LastAttempt returns the last attempt of a task.
func (t *Task) LastAttempt() Attempt { return Attempt{plan.NameOf(t.Config), t.Attempt} }

// Task returns the update under way if it is an update to this config; otherwise nil. The name "" stands for any
// config.
func (f Files) Task(config string) (*Task, error) {
	t, err := read[Task](f, TaskPath)
	if err != nil || t == nil || t.Config.Name == "" || config != "" && plan.NameOf(t.Config) != config {
		return nil, err
	}
	return t, nil
}

// RemoveOutdatedTask removes the task of a config that is no longer desired, so that the daemon does not continue it
// during an outage.
func (f Files) RemoveOutdatedTask(ctx context.Context, desired string) error {
	t, err := f.Task("")
	if err != nil || t == nil || plan.NameOf(t.Config) == desired {
		return err
	}
	return f.Remove(ctx, TaskPath)
}

// shortHash is how many characters of a commit's hash a text shows.
const shortHash = 10

// ConfigText names the config with who requested it: `rendered-x (commit 1f2e3d4c5b "time: two pools" by Alice)`, or
// with the objects that users changed through the API. If the controller did not report a request, the text names the
// commit for which the config was first rendered. If this commit is unknown too, the text is only the name.
func (t *Task) ConfigText() string {
	a := t.Config.Annotations
	asked := t.Requester
	if asked.Revision == "" && len(asked.API) == 0 {
		if asked = v1alpha1.ParseConfigRequest(a[v1alpha1.RequestAnnotation], t.Config.Name); len(asked.API) == 0 {
			asked = v1alpha1.Requester{
				Revision: a[v1alpha1.RevisionAnnotation],
				Subject:  a[v1alpha1.CommitSubjectAnnotation], Author: a[v1alpha1.CommitAuthorAnnotation],
			}
		}
	}
	if commitText(v1alpha1.CommitRef{Revision: asked.Revision}) == "" && len(asked.API) == 0 {
		return plan.NameOf(t.Config)
	}
	for _, list := range []*[]v1alpha1.APIChange{&asked.API, &asked.After} {
		*list = slices.Clone(*list)
		// The text omits the field manager: a reason is one line, and the pool's status shows the field manager.
		for i := range *list {
			c := &(*list)[i]
			c.Kind, c.Name, c.Manager = report.OneLine(c.Kind), report.OneLine(c.Name), ""
		}
	}
	return plan.NameOf(t.Config) + " (" + asked.Text(commitText) + ")"
}

// commitText names a commit on one line: `commit 1f2e3d4c5b "time: two pools" by Alice`. commitText returns "" if the
// hash is unknown.
func commitText(c v1alpha1.CommitRef) string {
	_, hash, _ := strings.Cut(c.Revision, ":")
	if hash = report.OneLine(hash); hash == "" {
		return ""
	}
	text := "commit " + hash[:min(len(hash), shortHash)]
	if subject := report.OneLine(c.Subject); subject != "" {
		text += " " + `"` + subject + `"`
	}
	author, _, _ := strings.Cut(c.Author, "<")
	if author = report.OneLine(author); author != "" {
		text += " by " + author
	}
	return text
}
