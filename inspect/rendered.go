package inspect

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// RenderedRow is one rendered config.
type RenderedRow struct {
	Name     string    `json:"name"`
	Pool     string    `json:"pool"`
	Source   string    `json:"source,omitempty"`
	Revision string    `json:"revision"`
	Subject  string    `json:"subject"`
	Author   string    `json:"author"`
	Created  time.Time `json:"created"`
	// API are the changes through the API that asked for the config. Where Revision is empty, no commit asked.
	API []v1alpha1.APIChange `json:"api,omitempty"`
	// After are the changes through the API that took back earlier ones.
	After []v1alpha1.APIChange `json:"after,omitempty"`
	// Unproven is the commit that the changes through the API came on, where no commit asked and the pool was never healthy with that one.
	Unproven *v1alpha1.CommitRef `json:"unproven,omitempty"`
	// Manual are the names of the MachineConfigs of a pool's target that no repository has.
	Manual []string `json:"manual,omitempty"`
}

// RenderedRows picks the rendered configs out of all MachineConfigs, newest first. What they are made of is not looked at.
func RenderedRows(all []metav1.PartialObjectMetadata) []RenderedRow {
	rows := []RenderedRow{}
	for i := range all {
		mc := &all[i]
		pool := ""
		for _, o := range mc.OwnerReferences {
			if o.Kind == "MachineConfigPool" {
				pool = o.Name
			}
		}
		if pool == "" || !strings.HasPrefix(mc.Name, "rendered-") {
			continue
		}
		row := RenderedRow{
			Name: mc.Name, Pool: pool, Source: mc.Annotations[v1alpha1.SourceAnnotation], Revision: mc.Annotations[v1alpha1.RevisionAnnotation],
			Subject: mc.Annotations[v1alpha1.CommitSubjectAnnotation], Author: mc.Annotations[v1alpha1.CommitAuthorAnnotation],
			Created: mc.CreationTimestamp.Time,
		}
		if asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], mc.Name); len(asked.API) > 0 || len(asked.After) > 0 {
			row.setRequester(asked)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b RenderedRow) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return rows
}

// RenderedTable shows the rows with their ages.
func RenderedTable(rows []RenderedRow, now time.Time) Table {
	t := Table{Head: []string{"RENDERED", "POOL", "COMMIT", "AUTHOR", "AGE", "SUBJECT"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{r.Name, r.Pool, dash(commitLabel(r.API, r.Revision)), person(r.Author), Age(r.Created, now), r.Subject})
	}
	return t
}
