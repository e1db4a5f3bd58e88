package inspect_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/tools/txtar"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

var update = flag.Bool("update", false, "rewrite the screens in testdata")

// noon is when every screen is made.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestScreens replays testdata/*.txtar: a cluster's objects, and what people read of them. The name of each further
// file is the command without `bunsen`.
func TestScreens(t *testing.T) {
	found, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(found) == 0 {
		t.Fatalf("no screens in testdata: %v", err)
	}
	for _, file := range found {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) < 2 || archive.Files[0].Name != "objects.yaml" {
				t.Fatal("want objects.yaml, and at least one screen")
			}
			c := parse(t, archive.Files[0].Data)
			for i := range archive.Files[1:] {
				screen := &archive.Files[i+1]
				got := c.show(t, screen.Name)
				if *update {
					screen.Data = []byte(got)
				} else if diff := gocmp.Diff(string(screen.Data), got); diff != "" {
					t.Errorf("another screen for %s (-want +got):\n%s", screen.Name, diff)
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// cluster is what a test's objects are.
type cluster struct {
	fleet.Cluster
	configs  []mcfgv1.MachineConfig
	requests []certificatesv1.CertificateSigningRequest
}

func parse(t *testing.T, data []byte) cluster {
	t.Helper()
	var c cluster
	docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			c.rendered()
			c.Denied = fleet.WithoutJoined(fleet.DeniedMachines(c.requests), c.Nodes)
			return c
		}
		if err != nil {
			t.Fatal(err)
		}
		c.add(t, doc)
	}
}

func (c *cluster) add(t *testing.T, doc []byte) {
	t.Helper()
	var kind struct{ Kind string }
	if err := yaml.Unmarshal(doc, &kind); err != nil {
		t.Fatal(err)
	}
	var err error
	switch kind.Kind {
	case "GitSource":
		c.Sources, err = one(c.Sources, doc)
	case "MachineConfigPool":
		c.Pools, err = one(c.Pools, doc)
	case "Node":
		c.Nodes, err = one(c.Nodes, doc)
	case "MachineConfig":
		c.configs, err = one(c.configs, doc)
	case "LeasesNote":
		var said struct{ Note string }
		err = yaml.Unmarshal(doc, &said)
		c.LeasesNote = said.Note
	case "NoLeases":
		c.Leases = []coordinationv1.Lease{}
	case "Lease":
		c.Leases, err = one(c.Leases, doc)
	case "MachineConfigNode":
		var of []metav1.PartialObjectMetadata
		of, err = one(of, doc)
		if c.Daemons == nil {
			c.Daemons = map[string]v1alpha1.DaemonReport{}
		}
		maps.Copy(c.Daemons, fleet.DaemonReports(of))
	case "CertificateSigningRequest":
		c.requests, err = one(c.requests, doc)
	case "ConfigMap": // the published revisions of secrets
		var m corev1.ConfigMap
		err = yaml.UnmarshalStrict(doc, &m)
		c.Secrets.Revisions = map[string]v1alpha1.SecretsRevision{}
		for config, text := range m.Data {
			var entry v1alpha1.SecretsRevision
			err = errors.Join(err, json.Unmarshal([]byte(text), &entry))
			c.Secrets.Revisions[config] = entry
		}
	case "SecretsNote":
		var said struct{ Note string }
		err = yaml.Unmarshal(doc, &said)
		c.Secrets.Note = said.Note
	case "RolloutPolicy":
		c.Policies, err = one(c.Policies, doc)
	case "Nodes": // many of one kind
		var many struct {
			Count         int
			Config, State string
		}
		err = yaml.Unmarshal(doc, &many)
		for i := range many.Count {
			n := corev1.Node{}
			n.Name = fmt.Sprintf("worker-%02d", i)
			n.Labels = map[string]string{"node-role.kubernetes.io/worker": ""}
			n.Annotations = map[string]string{
				v1alpha1.CurrentConfigAnnotation: many.Config,
				v1alpha1.DesiredConfigAnnotation: many.Config, v1alpha1.StateAnnotation: many.State,
			}
			c.Nodes = append(c.Nodes, n)
		}
	default:
		err = fmt.Errorf("unknown kind %q", kind.Kind)
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
}

// rendered are the rendered configs, where the test speaks of any.
func (c *cluster) rendered() {
	metas := make([]metav1.PartialObjectMetadata, len(c.configs))
	for i := range c.configs {
		metas[i].ObjectMeta = c.configs[i].ObjectMeta
	}
	if len(metas) > 0 {
		c.Rendered = fleet.RenderedRows(metas)
	}
}

func one[T any](list []T, doc []byte) ([]T, error) {
	var o T
	err := yaml.UnmarshalStrict(doc, &o)
	return append(list, o), err
}

func (c cluster) show(t *testing.T, command string) string {
	t.Helper()
	verb, what, _ := strings.Cut(command, " ")
	status := inspect.NewStatus(c.Cluster, noon)
	switch {
	case verb == "status":
		return inspect.NewOverview(c.Cluster, noon).StatusText()
	case command == "get rendered":
		return fleet.RenderedText(c.Rendered, noon)
	case command == "get sources":
		return status.SourceTable().String()
	case command == "get pools":
		return status.PoolTable().String()
	case command == "get nodes":
		return status.NodeTable().String()
	case verb == "drift":
		return inspect.NewClusterDrift(c.Cluster, noon).Text(noon)
	case verb == "trace":
		return c.trace(t, what)
	case command == "why":
		o := inspect.NewOverview(c.Cluster, noon)
		return o.Text(noon) + "outcome " + string(o.Outcome) + "\n"
	case verb == "why":
		return c.why(t, what)
	case verb == "history":
		return c.history(t, what)
	case verb == "screen":
		return screen(t, inspect.NewOverview(c.Cluster, noon), what)
	case verb == "course":
		return c.course(strings.TrimPrefix(what, "pool/"))
	case command == "summary":
		return c.summary()
	case verb == "changes":
		return strings.Join(status.Changes(nil), "\n") + "\n"
	case verb == "json":
		c.Timestamps = true
		status = inspect.NewStatus(c.Cluster, noon)
		text, err := json.MarshalIndent(map[string]any{
			"servers": status.Servers, "configAccess": status.ConfigAccess,
			"controllers": status.Controllers, "denied": status.Denied, "poolReports": status.PoolReports,
			"pools": status.Pools, "nodes": status.Nodes,
		}[what], "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	case slices.Contains([]string{"pause", "suspend", "resume", "retry"}, verb):
		return c.order(t, verb, what)
	}
	t.Fatalf("unknown screen %q", command)
	return ""
}

func (c cluster) trace(t *testing.T, what string) string {
	t.Helper()
	live := map[string]*mcfgv1.MachineConfig{}
	for i := range c.configs {
		live[c.configs[i].Name] = &c.configs[i]
	}
	name, isNode := strings.CutPrefix(what, "node/")
	var node *corev1.Node
	if isNode {
		i := slices.IndexFunc(c.Nodes, func(n corev1.Node) bool { return n.Name == name })
		node = &c.Nodes[i]
		name = node.Annotations[v1alpha1.CurrentConfigAnnotation]
	}
	mc, ok := live[name]
	if !ok {
		t.Fatalf("no MachineConfig %q among %v", name, slices.Sorted(maps.Keys(live)))
	}
	if !history.IsRendered(mc) {
		trace, err := history.TraceConfig(mc, live, c.Sources, c.Pools)
		if err != nil {
			t.Fatal(err)
		}
		return trace.Text()
	}
	var pool map[string]string
	for i := range c.Pools {
		if v1alpha1.RenderedPool(mc.Name) == c.Pools[i].Name {
			pool = c.Pools[i].Annotations
		}
	}
	trace, err := history.TraceRendered(mc, live, c.Sources, pool)
	if err != nil {
		t.Fatal(err)
	}
	trace.AddSecrets(mc, c.Secrets)
	if node != nil {
		trace.OfNode(node)
	}
	return trace.Text()
}
