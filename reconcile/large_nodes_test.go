package reconcile_test

import (
	"encoding/base64"
	"fmt"
	"math/rand"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// TestALargeFileAndRowsComeBack: pools with rows and a file of the content store return to their names by revert and by
// hold, after the garbage controller has deleted the file. Its bytes are there again before any node is assigned them.
func TestALargeFileAndRowsComeBack(t *testing.T) {
	w := newWorld(t)
	registry := newLargeFiles(t)
	store := &content.Store{Client: w.Client, Registry: registry, Now: func() time.Time { return w.Now }}
	w.source.Applier.Contents, w.render.Contents = store, store
	w.transpiler.LargeFiles, w.render.Defaults.LargeFiles = true, true
	file := ""
	noise := make([]byte, 2<<20)
	rand.New(rand.NewSource(1)).Read(noise)
	large := "-- pools/worker/30-large.bu --\nvariant: fcos\nversion: 1.6.0\nstorage:\n  files:\n" +
		"    - path: /opt/large\n      contents: {local: large}\n-- pools/worker/large --\n" +
		base64.StdEncoding.EncodeToString(noise) + "\n"
	complete := func(because string, want bool) {
		t.Helper()
		hashes := map[string]bool{}
		machineconfig.AddContentHashes(hashes, w.Config(w.Pool("worker").Spec.Configuration.Name))
		for file = range hashes {
		}
		if there, err := registry.Has(t.Context(), file); err != nil || there != want {
			t.Errorf("%s: the registry has %q: %v, %v", because, file, there, err)
		}
	}
	names := func(subject string, parts ...string) string {
		w.push(subject, parts...)
		target := w.renderPool("worker")
		w.follow()
		of, err := v1alpha1.ParseNodeConfigs(w.Config(target).Annotations[v1alpha1.NodeConfigsAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(target, " ", of)
	}
	first := names("large", timed, addressed, large, rows("192.0.2.1", "192.0.2.2"))
	complete("the first commit", true)
	names("a row", timed, addressed, large, rows("192.0.2.1", "198.51.100.2"))
	complete("another row", true)
	names("no large file", timed, addressed, rows("192.0.2.1", "198.51.100.2"))
	g := w.garbage()
	g.Contents = store
	for range 3 {
		w.Now = w.Now.Add(2 * time.Hour)
		w.sweep(g)
	}
	complete("no config names it for hours", false)
	controllertest.Equal(t, "the names after a revert", names("revert", timed, addressed, large,
		rows("192.0.2.1", "192.0.2.2")), first)
	complete("after the revert", true)
	held := w.Pool("worker").Spec.Configuration.Name
	w.hold(held, "main")
	controllertest.Equal(t, "the config of the held pool", w.renderPool("worker"), held)
	w.push("no large file again", timed, addressed, rows("192.0.2.1", "198.51.100.2"))
	controllertest.Equal(t, "the config of the held pool after a commit", w.renderPool("worker"), held)
	for range 3 {
		w.Now = w.Now.Add(2 * time.Hour)
		w.sweep(g)
	}
	controllertest.Equal(t, "the config of the held pool after the garbage controller", w.renderPool("worker"), held)
	complete("held", true)
	w.hold("", "")
	if free := w.renderPool("worker"); free == held {
		t.Error("the released pool keeps the config")
	}
	for range 3 {
		w.Now = w.Now.Add(2 * time.Hour)
		w.sweep(g)
	}
	if there, err := registry.Has(t.Context(), file); err != nil || there {
		t.Fatalf("the registry still has the file: %t, %v", there, err)
	}
	w.hold(held, "main") // It waits for the file. No event says that the registry has it.
	res, err := w.render.Reconcile(t.Context(), controllertest.Request("worker"))
	if err != nil || res.RequeueAfter != 10*time.Second {
		t.Errorf("the next render is in %s, %v", res.RequeueAfter, err)
	}
	controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
		mcfgv1.MachineConfigPoolRenderDegraded), "cannot use its hold", "writes the files of the held commit again")
	w.Now = w.Now.Add(20 * time.Minute)
	w.sweep(g)
	controllertest.Equal(t, "the config of the pool that waited for its file", w.renderPool("worker"), held)
}
