package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/source"
)

// KindMachineConfig is the kind of the objects from which pools are rendered.
const KindMachineConfig = "MachineConfig"

// RenderedRow is one rendered config.
type RenderedRow struct {
	// Name is the text of a v1alpha1.ConfigVersion.
	Name   string `json:"name"`
	Pool   string `json:"pool"`
	Source string `json:"source,omitempty"`
	// Repository is the address of the source's repository; empty if unknown.
	Repository string    `json:"-"`
	Revision   string    `json:"revision"`
	Subject    string    `json:"subject"`
	Author     string    `json:"author"`
	Created    time.Time `json:"created"`
	// Nodes are configs of single nodes, for the config of a pool.
	Nodes v1alpha1.NodeConfigs `json:"-"`
	// VariantOf is the config of the pool's other nodes, for a config of single nodes; empty for that of a pool.
	VariantOf string `json:"variantOf,omitempty"`
	// API are the changes through the API that requested the config. If Revision is empty, no commit requested it.
	API   []v1alpha1.APIChange `json:"api,omitempty"`
	After []v1alpha1.APIChange `json:"after,omitempty"`
	RenderedNotes
}

// ByAPI reports whether only changes through the API, and no commit, requested the config.
func (r RenderedRow) ByAPI() bool { return len(r.API) > 0 && r.Revision == "" }

func (r *RenderedRow) setRequester(asked v1alpha1.Requester) {
	if r.API, r.After = asked.API, asked.After; asked.ByAPI() {
		r.Source, r.Revision, r.Subject, r.Author = "", "", "", ""
		return
	}
	if asked.Revision != r.Revision || asked.Subject != "" {
		r.Revision, r.Subject, r.Author = asked.Revision, asked.Subject, asked.Author
	}
}

// unprovenCommit returns the commit that was applied when changes through the API requested a pool's config, if the
// pool was never healthy with it; otherwise nil.
func (v *Pool) unprovenCommit(config string) *v1alpha1.CommitRef {
	if v.HealthyConfig().Config == config {
		return nil
	}
	return v1alpha1.RequesterOf(v.Object.Annotations, config).Unproven
}

// CommitLabel is for a column of commits: the changes through the API that requested a config, then the commit, or "".
func CommitLabel(changes []v1alpha1.APIChange, revision string) string {
	label, commit := apiLabel(changes), ShortRevision(revision)
	if label == "" || commit == "" {
		return cmp.Or(label, commit)
	}
	return label + "; " + commit
}

// APINames names changes through the API in a sentence: `MachineConfig 99-by-hand (made through the API)`.
func APINames(changes []v1alpha1.APIChange) string {
	c := changes[0]
	c.Manager, c.At = "", metav1.Time{}
	object, how, _ := strings.Cut(c.String(), ", ")
	text := object + " (" + how + ")"
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// apiLabel names changes through the API in a column of commits, or is "".
func apiLabel(changes []v1alpha1.APIChange) string {
	switch len(changes) {
	case 0:
		return ""
	case 1:
		return "API: " + changes[0].Name
	}
	return "API: " + changes[0].Name + " and " + strconv.Itoa(len(changes)-1) + " more"
}

// RenderedNotes are what else a user should know about a rendered config.
type RenderedNotes struct {
	// Unproven is the commit that was applied when changes through the API requested the config, and with which the
	// pool was never healthy; nil if a commit requested the config.
	Unproven *v1alpha1.CommitRef `json:"unproven,omitempty"`
	// Manual are the names of the MachineConfigs of a pool's target that no repository has.
	Manual []string `json:"manual,omitempty"`
	// Secrets are the changes and the problems of the config's secrets; nil if it refers to none.
	Secrets *ConfigSecrets `json:"secrets,omitempty"`
}

// RenderedRows returns the rendered configs among all MachineConfigs, newest first. It does not check their content.
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
			Name: mc.Name, Pool: pool, Source: mc.Annotations[v1alpha1.SourceAnnotation],
			Revision:   mc.Annotations[v1alpha1.RevisionAnnotation],
			Subject:    mc.Annotations[v1alpha1.CommitSubjectAnnotation],
			Author:     mc.Annotations[v1alpha1.CommitAuthorAnnotation],
			Repository: mc.Annotations[v1alpha1.RepositoryAnnotation],
			Created:    mc.CreationTimestamp.Time, VariantOf: mc.Annotations[v1alpha1.VariantOfAnnotation],
		}
		// an invalid one counts as absent
		row.Nodes, _ = v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
		if asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation],
			mc.Name); len(asked.API) > 0 || len(asked.After) > 0 {
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

// RenderedText returns a table of the configs of pools with their ages, and how many configs of single nodes there are.
func RenderedText(rows []RenderedRow, now time.Time) string {
	t := terminal.Table{Head: []string{"RENDERED", "POOL", "COMMIT", "AUTHOR", "AGE", "SUBJECT"}}
	variants := 0
	for _, r := range rows {
		if r.VariantOf != "" {
			variants++
			continue
		}
		t.Rows = append(t.Rows, []string{
			r.Name, r.Pool, terminal.Dash(CommitLabel(r.API, r.Revision)),
			Person(r.Author), terminal.Age(r.Created, now), r.Subject,
		})
	}
	if variants == 0 {
		return t.String()
	}
	return t.String() + fmt.Sprintf("and %s of single nodes; -o json lists them\n", Count(variants, "config"))
}

// CommitText returns the config and its commit, as far as it is known.
func (r RenderedRow) CommitText() string {
	if r.Revision == "" && len(r.API) == 0 {
		return r.Name + "   (its commit is not known)"
	}
	asked := v1alpha1.Requester{
		Revision: r.Revision, Subject: r.Subject, Author: r.Author, API: r.API,
		AlsoCommit: !r.ByAPI(), After: r.After, Unproven: r.Unproven,
	}
	return r.Name + "   " + asked.Text(commitText)
}

// commitText returns a commit with its subject and its author, as far as they are known.
func commitText(c v1alpha1.CommitRef) string {
	text := ShortRevision(c.Revision)
	if c.Subject != "" {
		text += " " + source.Quote(c.Subject)
	}
	if c.Author != "" {
		text += "   " + c.Author
	}
	return text
}
