package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience is how long a story waits for one thing. On an idle machine most take a second or two, and the heartbeat of
// a daemon over a minute.
const patience = 4 * time.Minute

// Kinds that stories speak of; namespaced ones are in `default`.
var kinds = map[string]struct {
	schema.GroupVersionResource
	namespaced bool
}{
	"notification":         {GroupVersionResource: schema.GroupVersionResource{Group: "bunsen.dev", Version: "v1alpha1", Resource: "notifications"}},
	"gitsource":            {GroupVersionResource: schema.GroupVersionResource{Group: "bunsen.dev", Version: "v1alpha1", Resource: "gitsources"}},
	"mc":                   {GroupVersionResource: schema.GroupVersionResource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfigs"}},
	"provisioningtoken":    {GroupVersionResource: schema.GroupVersionResource{Group: "bunsen.dev", Version: "v1alpha1", Resource: "provisioningtokens"}},
	"mcp":                  {GroupVersionResource: schema.GroupVersionResource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfigpools"}},
	"machineconfignode":    {GroupVersionResource: schema.GroupVersionResource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfignodes"}},
	"bunsenstatus":         {GroupVersionResource: schema.GroupVersionResource{Group: "bunsen.dev", Version: "v1alpha1", Resource: "bunsenstatuses"}},
	"machineconfiguration": {GroupVersionResource: schema.GroupVersionResource{Group: "operator.openshift.io", Version: "v1", Resource: "machineconfigurations"}},
	"clusterrole":          {GroupVersionResource: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}},
	"node":                 {GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}},
	"daemonset":            {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, true},
	"pod":                  {schema.GroupVersionResource{Version: "v1", Resource: "pods"}, true},
}

// object is one object of the cluster, by the name that stories call it.
type object struct {
	client dynamic.ResourceInterface
	name   string
}

func (s *story) object(spoken string) (object, error) {
	kind, name, ok := strings.Cut(spoken, "/")
	k, known := kinds[kind]
	if !ok || !known {
		return object{}, fmt.Errorf("%q is no KIND/NAME of a kind that stories know", spoken)
	}
	var client dynamic.ResourceInterface = s.cluster.dynamic.Resource(k.GroupVersionResource)
	if k.namespaced {
		client = s.cluster.dynamic.Resource(k.GroupVersionResource).Namespace("default")
	}
	return object{client, name}, nil
}

// until calls see with the object, nil where there is none, at first and after each change, until it says yes.
func (o object) until(ctx context.Context, see func(*unstructured.Unstructured) (bool, error)) error {
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + o.name}
	for {
		list, err := o.client.List(ctx, options)
		if err != nil {
			return err
		}
		var now *unstructured.Unstructured
		if len(list.Items) > 0 {
			now = &list.Items[0]
		}
		if done, err := see(now); done || err != nil {
			return err
		}
		options.ResourceVersion = list.GetResourceVersion()
		w, err := o.client.Watch(ctx, options)
		if err != nil {
			return err
		}
		for event := range w.ResultChan() {
			u, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				break // the watch fell behind: list again
			}
			if event.Type == "DELETED" {
				u = nil
			}
			if done, err := see(u); done || err != nil {
				w.Stop()
				return err
			}
		}
		w.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		options.ResourceVersion = ""
	}
}

// waitfor waits for a field, an absence or a file.
func (s *story) waitfor(ts *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 2 && args[1] == "gone":
		return s.waitObject(args[0], func(u *unstructured.Unstructured) (bool, string, error) {
			return u == nil, "it is there", nil
		})
	case len(args) != 3:
		return usage("waitfor KIND/NAME FIELD REGEXP | KIND/NAME gone | file PATH REGEXP")
	}
	want, err := regexp.Compile("^(?s:" + args[2] + ")$")
	if err != nil {
		return err
	}
	if args[0] == "file" {
		return waitFile(ts.MkAbs(args[1]), want)
	}
	return s.waitObject(args[0], func(u *unstructured.Unstructured) (bool, string, error) {
		value, err := field(u, args[1])
		ok := err == nil && want.MatchString(value)
		if ok {
			ts.Logf("%s", value)
		}
		return ok, value, err
	})
}

func (s *story) waitObject(spoken string,
	judge func(*unstructured.Unstructured) (ok bool, seen string, err error),
) error {
	o, err := s.object(spoken)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go s.cancelOnDeath(ctx, cancel)
	var seen []string
	var last *unstructured.Unstructured
	err = o.until(ctx, func(u *unstructured.Unstructured) (bool, error) {
		ok, value, err := judge(u)
		if u != nil {
			last = u
		}
		if len(seen) == 0 || seen[len(seen)-1] != value {
			seen = append(seen, value)
		}
		return ok, err
	})
	if err == nil {
		return nil
	}
	dump := []byte("there is no such object")
	if last != nil {
		unstructured.RemoveNestedField(last.Object, "metadata", "managedFields")
		dump, _ = yaml.Marshal(last.Object) // what the API server sent is always an object
	}
	return fmt.Errorf("waiting for %s: %w\nseen, oldest first:\n  %s\nthe object:\n%s", spoken,
		errors.Join(s.alive(), err), strings.Join(seen, "\n  "), dump)
}

// cancelOnDeath stops a wait as soon as a process has died of itself.
func (s *story) cancelOnDeath(ctx context.Context, cancel func()) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.alive() != nil {
				cancel()
				return
			}
		}
	}
}

// eventually REGEXP PROGRAM ARG... executes a program again and again, until a part of its standard output matches,
// whatever its exit code.
func (s *story) eventually(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return usage("eventually REGEXP PROGRAM ARG...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	if err != nil {
		return err
	}
	var last printed
	err = poll(patience, func() (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		last, err = s.run(ts, "", args[1], args[2:]...)
		return err == nil && want.MatchString(last.out), err
	})
	if err != nil {
		return fmt.Errorf("waiting for %q to print %q: %w\nseen, with exit code %d:\n%s%s", args[1:], want, err,
			last.code, last.out, last.errs)
	}
	ts.Logf("%s", last.out)
	return nil
}

func waitFile(path string, want *regexp.Regexp) error {
	var raw []byte
	var readErr error
	err := poll(patience, func() (bool, error) {
		raw, readErr = os.ReadFile(path)
		return readErr == nil && want.Match(raw), readErr
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be %q: %w\nseen:\n%s", path, want, err, raw)
	}
	return nil
}

// field reads a {jsonpath}, annotation:KEY or condition:TYPE.
func field(u *unstructured.Unstructured, path string) (string, error) {
	if u == nil {
		return "(no such object)", nil
	}
	if key, ok := strings.CutPrefix(path, "annotation:"); ok {
		for k, v := range u.GetAnnotations() {
			if k == key || strings.HasSuffix(k, "/"+key) {
				return v, nil
			}
		}
		return "", nil
	}
	if kind, ok := strings.CutPrefix(path, "condition:"); ok {
		list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range list {
			if m, ok := c.(map[string]any); ok && m["type"] == kind {
				return fmt.Sprintf("%v %v %v", m["status"], m["reason"], m["message"]), nil
			}
		}
		return "(no such condition)", err
	}
	j := jsonpath.New(path).AllowMissingKeys(true)
	if err := j.Parse(path); err != nil {
		return "", fmt.Errorf("reading %q: %w", path, err)
	}
	var b bytes.Buffer
	err := j.Execute(&b, u.Object)
	return b.String(), err
}

// let VAR KIND/NAME FIELD sets a variable.
func (s *story) let(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return usage("let VAR KIND/NAME FIELD")
	}
	o, err := s.object(args[1])
	if err != nil {
		return err
	}
	u, err := o.client.Get(context.Background(), o.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading %s: %w", args[1], err)
	}
	value, err := field(u, args[2])
	if err != nil {
		return err
	}
	if value == "" {
		return fmt.Errorf("%s has no %s", args[1], args[2])
	}
	ts.Setenv(args[0], value)
	ts.Logf("%s=%s", args[0], value)
	return nil
}

// look SOURCE asks for a look at the repository, and waits until the controller says that it has looked.
func (s *story) look(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("look SOURCE")
	}
	o, err := s.object("gitsource/" + args[0])
	if err != nil {
		return err
	}
	s.looks++
	asked := strconv.Itoa(s.looks)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"bunsen.dev/reconcile":%q}}}`, asked)
	if _, err := o.client.Patch(context.Background(), o.name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("asking for a look: %w", err)
	}
	return s.waitObject("gitsource/"+args[0], func(u *unstructured.Unstructured) (bool, string, error) {
		value, err := field(u, "{.status.lastHandledReconcileAt}")
		return value == asked, value, err
	})
}
