package controller_test

import (
	"encoding/base64"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller/contents"
	"github.com/bunsen-os/bunsen/reconcile/controller/controllertest"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestALargeFileAndRowsComeBack: pools with rows and a file of the content store return to their names by revert and by
// hold, after the garbage controller has deleted the file. Its bytes are there again before any node is assigned them.
func TestALargeFileAndRowsComeBack(t *testing.T) {
	w := newWorld(t)
	store := &contents.Store{Client: w.Client, Live: w.Admin, Now: func() time.Time { return w.Now }}
	w.source.Applier.Contents, w.render.Contents = store, store
	noise := make([]byte, 2<<20)
	rand.New(rand.NewSource(1)).Read(noise)
	large := "-- pools/worker/30-large.bu --\nvariant: fcos\nversion: 1.6.0\nstorage:\n  files:\n" +
		"    - path: /opt/large\n      contents: {local: large}\n-- pools/worker/large --\n" +
		base64.StdEncoding.EncodeToString(noise) + "\n"
	complete := func(because string, want bool) {
		t.Helper()
		var all v1alpha1.ContentList
		var chunks v1alpha1.ContentChunkList
		if err := w.Admin.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		if err := w.Admin.List(t.Context(), &chunks); err != nil {
			t.Fatal(err)
		}
		for _, c := range all.Items {
			for _, name := range c.Spec.Chunks {
				chunk := &v1alpha1.ContentChunk{}
				if err := w.Admin.Get(t.Context(), client.ObjectKey{Name: name}, chunk); err != nil {
					t.Errorf("%s: %v", because, err)
				} else if _, err := contentstore.Plain(chunk); err != nil {
					t.Errorf("%s: %v", because, err)
				}
			}
		}
		if is := len(all.Items) == 1; is != want || !want && len(chunks.Items) != 0 {
			t.Errorf("%s: %d files and %d chunks", because, len(all.Items), len(chunks.Items))
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
}
