package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

const completionTimeout = 3 * time.Second

// Complete returns a completion function for at most the given number of arguments. It offers what ask finds, and
// nothing if the cluster does not answer.
func Complete(most int, ask func(context.Context, client.Client, []string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const quiet = cobra.ShellCompDirectiveNoFileComp
		if len(args) >= most {
			return nil, quiet
		}
		t := TargetOf(cmd)
		c, err := t.Connect()
		if err != nil {
			return nil, quiet
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		offers, err := ask(ctx, c, args)
		if err != nil {
			return nil, quiet
		}
		return offers, quiet
	}
}

// CompleteSubjects offers the nodes, pools or GitSources on the cluster.
func CompleteSubjects(kinds ...string) cobra.CompletionFunc {
	return Complete(1, func(ctx context.Context, c client.Client, _ []string) (offers []string, err error) {
		for _, kind := range kinds {
			names, err := ListNames(ctx, c, kind)
			if err != nil {
				continue // The user may have permission to read the other kinds.
			}
			for _, n := range names {
				offers = append(offers, Subject{kind, n}.String())
			}
		}
		return offers, nil
	})
}

// CompletePools offers the names of the pools on the cluster.
func CompletePools(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return Complete(1, func(ctx context.Context, c client.Client, _ []string) ([]string, error) {
		return ListNames(ctx, c, KindPool)
	})(cmd, nil, typed)
}

// Subject is a node, a pool or a GitSource that a command is about.
type Subject struct{ Kind, Name string }

// Kinds of subjects.
const (
	KindNode   = "node"
	KindPool   = "pool"
	KindSource = "gitsource"
)

// String returns the form that commands and users write.
func (t Subject) String() string { return t.Kind + "/" + t.Name }

// spellings: Bunsen's name of each kind, then kubectl's
var spellings = map[string][]string{
	KindNode:   {"node", "nodes", "no"},
	KindSource: {"gitsource", "gitsources", "source", "sources"},
	KindPool:   {"pool", "pools", "mcp", "machineconfigpool", "machineconfigpools"},
}

// IsKind reports whether a word names a kind of subjects.
func IsKind(kind, word string) bool { return slices.Contains(spellings[kind], word) }

// OneSubject checks that the arguments name one subject of one of the given kinds.
func OneSubject(kinds ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		forms := make([]string, len(kinds))
		for i, k := range kinds {
			forms[i] = k + "/NAME"
		}
		if len(args) != 1 {
			return fmt.Errorf("%s what? Name one: %s", cmd.Name(), strings.Join(forms, " or "))
		}
		kind, name, spoken := strings.Cut(args[0], "/")
		if !spoken {
			return nil
		}
		for _, k := range kinds {
			if slices.Contains(spellings[k], kind) && name != "" && !strings.Contains(name, "/") {
				return nil
			}
		}
		return fmt.Errorf("%s %s: want %s", cmd.Name(), args[0], strings.Join(forms, " or "))
	}
}

// FindSubject reads KIND/NAME, or NAME if only one object of the given kinds has it.
func FindSubject(c fleet.Cluster, arg string, kinds ...string) (Subject, error) {
	if kind, name, spoken := strings.Cut(arg, "/"); spoken {
		for k, words := range spellings {
			if slices.Contains(words, kind) {
				return Subject{k, name}, nil
			}
		}
	}
	var found []Subject
	for _, kind := range kinds {
		if slices.Contains(namesOf(c, kind), arg) {
			found = append(found, Subject{kind, arg})
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Subject{},
			cli.Invalid(fmt.Errorf("there is no %s named %q on the cluster; `bunsen get pools`, `get nodes` and `get "+
				"sources` list them", strings.Join(kinds, " or "), arg))
	default:
		forms := make([]string, len(found))
		for i, t := range found {
			forms[i] = t.String()
		}
		return Subject{}, cli.Invalid(fmt.Errorf("%q is the name of several things: write %s", arg,
			strings.Join(forms, " or ")))
	}
}

func namesOf(c fleet.Cluster, kind string) []string {
	var out []string
	switch kind {
	case KindPool:
		for i := range c.Pools {
			out = append(out, c.Pools[i].Name)
		}
	case KindSource:
		for i := range c.Sources {
			out = append(out, c.Sources[i].Name)
		}
	default:
		for i := range c.Nodes {
			out = append(out, c.Nodes[i].Name)
		}
		for _, m := range c.Denied { // Denied machines have no Node yet, but a user may name them.
			if m.Node != "" && !slices.Contains(out, m.Node) {
				out = append(out, m.Node)
			}
		}
	}
	return out
}

// ListNames lists the names of the objects of a kind.
func ListNames(ctx context.Context, c client.Client, kind string) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	switch kind {
	case KindPool:
		list.TypeMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigPoolList"}
	case KindSource:
		list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GitSourceList"}
	}
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	out := make([]string, len(list.Items))
	for i := range list.Items {
		out[i] = list.Items[i].Name
	}
	return out, nil
}
