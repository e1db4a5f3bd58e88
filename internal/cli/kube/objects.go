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
	// pageSize is how many objects one request reads.
	pageSize = 500
	// maxObjects is how many objects of one kind a bundle has.
	maxObjects = 5000
	// maxWhy is for how many waiting nodes a bundle has the reason.
	maxWhy = 100
)

// kind is a kind of objects to collect. An empty namespace means all namespaces.
type kind struct{ group, version, kind, namespace string }

// objects adds the objects of a kind to the bundle.
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

// isOwnKind reports whether a CRD is one that Bunsen installs.
func isOwnKind(crd string) bool {
	return strings.HasSuffix(crd, ".bunsen.dev") || strings.Contains(crd, "machineconfig")
}

// fileName returns an object's name as a file name; names of certificate requests and roles can contain colons.
func fileName(name string) string { return strings.NewReplacer("/", "_", ":", "_").Replace(name) }

// answers adds the output of the commands status and why to the bundle.
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

// why adds the output of the command why for one object.
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

// text adds a text to the bundle, with its secrets masked.
func (c collector) text(name, text string) { c.Add(name, []byte(MaskedText(safetext.Lines(text)))) }
