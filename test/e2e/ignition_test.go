package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/mcs"
)

// sameignition POOL asks as a new machine does, and compares with what the pool has.
func (s *story) sameignition(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("sameignition POOL")
	}
	want, name, err := s.renderedIgnition(args[0])
	if err != nil {
		return err
	}
	var differ string
	// The server learns of a new config by its own watch, so it may be a moment behind.
	err = poll(patience, func() (bool, error) {
		got, err := s.servedIgnition(ts, args[0])
		if err != nil {
			return false, err
		}
		differ = cmp.Diff(want, got)
		return differ == "", errors.New("it differs")
	})
	if err != nil {
		return fmt.Errorf("serving %s: %w\nrendered (-) and served (+):\n%s", name, err, differ)
	}
	return nil
}

// renderedIgnition is the Ignition of the pool's rendered config.
func (s *story) renderedIgnition(pool string) (map[string]any, string, error) {
	p, err := s.object("mcp/" + pool)
	if err != nil {
		return nil, "", err
	}
	u, err := p.client.Get(context.Background(), pool, metav1.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	name, _, err := unstructured.NestedString(u.Object, "spec", "configuration", "name")
	if err != nil {
		return nil, "", err
	}
	mc, err := s.object("mc/" + name)
	if err != nil {
		return nil, name, err
	}
	if u, err = mc.client.Get(context.Background(), name, metav1.GetOptions{}); err != nil {
		return nil, name, err
	}
	config, _, err := unstructured.NestedMap(u.Object, "spec", "config")
	if err != nil {
		return nil, name, err
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, name, err
	}
	out, err := plainIgnition(raw)
	return out, name, err
}

// servedIgnition is the served config, with its secrets, without the files that the server appends; each must be there.
func (s *story) servedIgnition(ts *testscript.TestScript, pool string) (map[string]any, error) {
	pass, err := s.pass(ts, pool)
	if err != nil {
		return nil, err
	}
	status, raw, err := s.asMachine(ts, http.MethodGet, pool, pass)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", status, raw)
	}
	config, err := plainIgnition(raw)
	if err != nil {
		return nil, err
	}
	return config, withoutAppended(config)
}

func withoutAppended(config map[string]any) error {
	storage, _ := config["storage"].(map[string]any)
	files, _ := storage["files"].([]any)
	for _, path := range []string{mcs.NodeAnnotationsPath, mcs.EncapsulatedPath} {
		i := slices.IndexFunc(files, func(f any) bool { return f.(map[string]any)["path"] == path })
		if i < 0 {
			return fmt.Errorf("%s is not served", path)
		}
		files = slices.Delete(files, i, i+1)
	}
	storage["files"] = files
	return nil
}

// plainIgnition is a config without what says nothing: empty objects, empty lists and nulls.
func plainIgnition(raw []byte) (map[string]any, error) {
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("reading an Ignition config: %w\n%s", err, raw)
	}
	prune(config)
	return config, nil
}

// prune drops empty values of an object, and tells whether anything is left.
func prune(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case map[string]any:
		for k, inner := range v {
			if !prune(inner) {
				delete(v, k)
			}
		}
		return len(v) > 0
	case []any:
		for _, inner := range v {
			prune(inner)
		}
		return len(v) > 0
	default:
		return true
	}
}
