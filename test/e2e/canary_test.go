package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bunsen-os/bunsen/test/canary"
	"github.com/bunsen-os/bunsen/test/ports"
)

// encryptSecrets writes the API server's configuration that encrypts Secrets in etcd, so that a value in etcd is a
// leak.
func encryptSecrets(file string) error {
	const config = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources: [secrets]
    providers:
      - secretbox: {keys: [{name: test, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}
`
	return os.WriteFile(file, []byte(config), 0o600)
}

// canaries VALUE... names values that must be nowhere, for `searched`, and begins to record processes. @FILE is the
// whole content of a file, of which only digests are searched for. $METRICS and $SERVERMETRICS are free addresses for
// the metrics of the controller and the server.
func (s *story) canaries(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 || s.finder != nil {
		return usage("canaries VALUE|@FILE..., once")
	}
	var values []canary.Value
	for _, arg := range args {
		v := canary.Value{Name: arg, Text: []byte(arg)}
		if file, whole := strings.CutPrefix(arg, "@"); whole {
			v.Text, v.Whole = []byte(ts.ReadFile(file)), true
		}
		values = append(values, v)
	}
	var err error
	if s.finder, err = canary.New(values...); err != nil {
		return err
	}
	for _, name := range []string{"METRICS", "SERVERMETRICS"} {
		address, err := ports.Address()
		if err != nil {
			return err
		}
		ts.Setenv(name, address)
	}
	s.processes = canary.WatchProcesses()
	ts.Defer(s.processes.Stop)
	return nil
}

// searched ALLOWED [URL...] searches everything that this story wrote so far for the canaries: files of all programs
// and hosts, all objects, etcd, processes, what bunsen prints, a support bundle, and the metrics at the URLs. The file
// ALLOWED lists the places that may have a canary: PLACE MODE REASON.
func (s *story) searched(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 || s.finder == nil {
		return usage("searched ALLOWED [URL...], after canaries")
	}
	allowed, err := canary.ParseAllowed(ts.ReadFile(args[0]))
	if err != nil {
		return err
	}
	r := canary.NewReport(s.finder, allowed)
	began := time.Now()
	for _, url := range args[1:] {
		text, err := metricsAt(url)
		if err != nil {
			return err
		}
		r.Add(url, text, "")
	}
	if err := s.searchOutputs(ts, r); err != nil {
		return err
	}
	if err := s.searchObjects(r); err != nil {
		return err
	}
	s.processes.AddTo(r)
	r.AddTree(s.cluster.env.ControlPlane.Etcd.DataDir, "etcd")
	r.AddTree(s.work, "")
	for name, h := range s.hosts {
		journal, err := h.Exec(context.Background(), "journalctl", "--no-pager", "--output=export")
		if err != nil {
			return fmt.Errorf("reading the journal of %s: %w", name, err)
		}
		r.Add("the journal of "+name, []byte(journal), "")
		metrics, err := h.Exec(context.Background(), "curl", "--silent", "--fail", "http://127.0.0.1:8797/metrics")
		if err != nil {
			return fmt.Errorf("reading the metrics of the daemon of %s: %w", name, err)
		}
		if !strings.Contains(metrics, "mcd_") {
			return fmt.Errorf("the daemon of %s has no metrics: %.200s", name, metrics)
		}
		r.Add("the metrics of "+name, []byte(metrics), "")
		r.AddTree(h.Upper, "machines/"+name) // what differs from the image
	}
	ts.Logf("searched %d places with %d bytes in %s", r.Places, r.Bytes, time.Since(began).Round(time.Second))
	if r.Places < 300 {
		return errors.Join(fmt.Errorf("only %d places were searched", r.Places), r.Err())
	}
	return r.Err()
}

// metricsAt reads the metrics of a program.
func metricsAt(url string) ([]byte, error) {
	client := &http.Client{
		Timeout:   patience,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	res, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK || !strings.Contains(string(text), "bunsen_") {
		return nil, fmt.Errorf("%s answers %d without metrics", url, res.StatusCode)
	}
	return text, nil
}

// searchOutputs searches what bunsen prints about the cluster, and a support bundle.
func (s *story) searchOutputs(ts *testscript.TestScript, r *canary.Report) error {
	ask := [][]string{
		{"status"},
		{"status", "-o", "json"},
		{"drift"},
		{"get", "rendered", "-o", "json"},
		{"support-bundle", "--output", "-"},
	}
	pools, err := s.cluster.dynamic.Resource(schema.GroupVersionResource{
		Group:   "machineconfiguration.openshift.io",
		Version: "v1", Resource: "machineconfigpools",
	}).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	nodes, err := s.cluster.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).
		List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, p := range pools.Items {
		ask = append(ask, []string{"why", "pool/" + p.GetName(), "-o", "json"},
			[]string{"history", "pool/" + p.GetName(), "-o", "json"})
	}
	for _, n := range nodes.Items {
		ask = append(ask, []string{"why", "node/" + n.GetName(), "-o", "json"}, []string{
			"trace", "node/" + n.GetName(),
			"-o", "json",
		})
	}
	for _, args := range ask {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		out, err := s.bunsenCommand(ctx, ts, args...).CombinedOutput()
		cancel()
		if len(out) == 0 { // An exit code is an answer: a pool may wait.
			return fmt.Errorf("bunsen %s prints nothing: %w", strings.Join(args, " "), err)
		}
		r.Add("bunsen "+strings.Join(args, " "), out, "")
	}
	return nil
}

// searchObjects searches all objects of the API server, with their managed fields. A place is RESOURCE/NAMESPACE/NAME.
func (s *story) searchObjects(r *canary.Report) error {
	lists, err := s.cluster.clients.Discovery().ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("listing the kinds of the API server: %w", err)
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") {
				continue
			}
			objects, err := s.cluster.dynamic.Resource(group.WithResource(kind.Name)).List(context.Background(),
				metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("listing %s: %w", kind.Name, err)
			}
			for i := range objects.Items {
				if err := searchObject(r, kind.Name, &objects.Items[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func searchObject(r *canary.Report, kind string, o *unstructured.Unstructured) error {
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	r.Add(path.Join(kind, o.GetNamespace(), o.GetName()), raw, "")
	return nil
}
