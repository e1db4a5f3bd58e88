package main

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
	"github.com/bunsen-os/bunsen/inspect"
)

// thing is a node, a pool or a GitSource that a command is about.
type thing struct{ kind, name string }

// Kinds of things.
const (
	aNode   = "node"
	aPool   = "pool"
	aSource = "gitsource"
)

// String is how commands and people write it.
func (t thing) String() string { return t.kind + "/" + t.name }

// spellings of the kinds; the first is ours, the others are kubectl's.
var spellings = map[string][]string{
	aNode:   {"node", "nodes", "no"},
	aSource: {"gitsource", "gitsources", "source", "sources"},
	aPool:   {"pool", "pools", "mcp", "machineconfigpool", "machineconfigpools"},
}

// oneThing checks that one thing is named, of one of these kinds.
func oneThing(kinds ...string) cobra.PositionalArgs {
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

// named reads KIND/NAME, or NAME where only one thing of these kinds has it.
func named(c inspect.Cluster, arg string, kinds ...string) (thing, error) {
	if kind, name, spoken := strings.Cut(arg, "/"); spoken {
		for k, words := range spellings {
			if slices.Contains(words, kind) {
				return thing{k, name}, nil
			}
		}
	}
	var found []thing
	for _, kind := range kinds {
		if slices.Contains(namesOf(c, kind), arg) {
			found = append(found, thing{kind, arg})
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return thing{}, invalid(fmt.Errorf("there is no %s named %q on the cluster; `bunsen get pools`, `get nodes` and `get sources` list them", strings.Join(kinds, " or "), arg))
	default:
		forms := make([]string, len(found))
		for i, t := range found {
			forms[i] = t.String()
		}
		return thing{}, invalid(fmt.Errorf("%q is the name of several things: write %s", arg, strings.Join(forms, " or ")))
	}
}

func namesOf(c inspect.Cluster, kind string) []string {
	var out []string
	switch kind {
	case aPool:
		for i := range c.Pools {
			out = append(out, c.Pools[i].Name)
		}
	case aSource:
		for i := range c.Sources {
			out = append(out, c.Sources[i].Name)
		}
	default:
		for i := range c.Nodes {
			out = append(out, c.Nodes[i].Name)
		}
	}
	return out
}

// completeThings offers the things on the cluster.
func (t *target) completeThings(kinds ...string) cobra.CompletionFunc {
	const quiet = cobra.ShellCompDirectiveNoFileComp
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, quiet
		}
		c, err := t.connect("table")
		if err != nil {
			return nil, quiet
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
		defer cancel()
		var offers []cobra.Completion
		for _, kind := range kinds {
			names, err := listNames(ctx, c, kind)
			if err != nil {
				continue
			}
			for _, n := range names {
				offers = append(offers, thing{kind, n}.String())
			}
		}
		return offers, quiet
	}
}

// listNames asks for names only.
func listNames(ctx context.Context, c client.Client, kind string) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	switch kind {
	case aPool:
		list.TypeMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigPoolList"}
	case aSource:
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
