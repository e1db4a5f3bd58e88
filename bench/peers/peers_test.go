package peers_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/peers"
)

// A peer that fails must not pass for a fast one.
func TestPeersDoTheWork(t *testing.T) {
	if _, err := peers.Butane([]byte("variant: fcos\nversion: 1.6.0\nstorage: {files: [{}]}\n")); err == nil {
		t.Error("Butane took a file without a path")
	}
	overlay, err := peers.Overlay(corpus.Small, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := peers.Kustomize(overlay); err != nil {
		t.Error(err)
	}
	if err := overlay.RemoveAll("/base/doc-0001.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := peers.Kustomize(overlay); err == nil {
		t.Error("kustomize built a base of which a document is missing")
	}
}

func TestDocumentsAreTranslatedAndMerged(t *testing.T) {
	texts := [][]byte{[]byte(corpus.Small.Butane(0, 0)), []byte(corpus.Small.Butane(1, 0))}
	both, err := peers.Build("worker", texts...)
	if err != nil {
		t.Fatal(err)
	}
	if one, err := peers.Build("worker", texts[0]); err != nil || one == both {
		t.Errorf("without one of them it is still %s: %v", one, err)
	}
	if name, err := peers.Build("worker", []byte("variant: unknown\nversion: 1.0.0\n")); err == nil {
		t.Errorf("a document that Butane refuses gives %s", name)
	}
}

func TestTheMergeHasAllConfigs(t *testing.T) {
	mcs := corpus.Small.MachineConfigs(3)
	all, err := peers.Merge("worker", mcs)
	if err != nil {
		t.Fatal(err)
	}
	mcs[0], mcs[2] = mcs[2], mcs[0]
	if again, err := peers.Merge("worker", mcs); err != nil || again != all {
		t.Errorf("in another order it is %s, not %s: %v", again, all, err)
	}
	if two, err := peers.Merge("worker", mcs[:2]); err != nil || two == all {
		t.Errorf("without one of them it is still %s: %v", two, err)
	}
	mcs[1].Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"relative"}]}}`)
	if name, err := peers.Merge("worker", mcs); err == nil {
		t.Errorf("a path that is not absolute gives %s", name)
	}
}
