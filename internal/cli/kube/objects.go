package kube

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/safetext"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

const (
	pageSize = 500
	// of one kind
	maxObjects = 5000
	// the waiting nodes for which a bundle has the reason
	maxWhy = 100
)

// kind: an empty namespace means all.
type kind struct{ group, version, kind, namespace string }

func (c collector) objects(ctx context.Context, k kind) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind + "List"})
	dir, count := path.Join("objects", strings.ToLower(k.kind)), 0
	for {
		if err := c.client.List(ctx, list, client.InNamespace(k.namespace), client.Limit(pageSize),
			client.Continue(list.GetContinue())); err != nil {
			c.LeaveOut(dir, err.Error())
			return
		}
		for i := range list.Items {
			o := &list.Items[i]
			if k.kind == "CustomResourceDefinition" && !isOwnKind(o.GetName()) {
				continue
			}
			if count++; count > maxObjects {
				c.LeaveOut(dir, fmt.Sprintf("only the first %d objects are here", maxObjects))
				return
			}
			text, err := MaskedObject(o)
			if err != nil {
				c.LeaveOut(path.Join(dir, o.GetName()), err.Error())
				continue
			}
			c.Add(path.Join(dir, o.GetNamespace(), fileName(o.GetName())+".yaml"), text)
		}
		if list.GetContinue() == "" {
			return
		}
	}
}

func isOwnKind(crd string) bool {
	return strings.HasSuffix(crd, ".bunsen.dev") || strings.Contains(crd, "machineconfig")
}

// fileName makes a file name: names of certificate requests and roles can contain colons.
func fileName(name string) string { return strings.NewReplacer("/", "_", ":", "_").Replace(name) }

func (c collector) answers(ctx context.Context) {
	cluster, err := ReadAll(ctx, c.client)
	if err != nil {
		c.LeaveOut("status.txt and why", err.Error())
		return
	}
	status := inspect.NewStatus(cluster, c.At)
	c.text("status.txt", status.Text())
	for i := range cluster.Pools {
		c.why("pool", cluster.Pools[i].Name, cluster, inspect.WhyPool)
	}
	for i := range cluster.Sources {
		c.why("gitsource", cluster.Sources[i].Name, cluster, inspect.WhySource)
	}
	waiting := 0
	for _, n := range status.Nodes {
		if n.Reason == "" {
			continue
		}
		if waiting++; waiting > maxWhy {
			c.LeaveOut("why/node_"+n.Name+".txt", fmt.Sprintf("the bundle has the reasons of %d nodes", maxWhy))
			continue
		}
		c.why("node", n.Name, cluster, inspect.WhyNode)
	}
}

func (c collector) why(kind, name string, cluster fleet.Cluster,
	ask func(fleet.Cluster, string, time.Time) (inspect.Why, error),
) {
	file := fmt.Sprintf("why/%s_%s.txt", kind, fileName(name))
	answer, err := ask(cluster, name, c.At)
	if err != nil {
		c.LeaveOut(file, err.Error())
		return
	}
	c.text(file, answer.Text(c.At))
}

func (c collector) text(name, text string) { c.Add(name, []byte(MaskedText(safetext.Lines(text)))) }
