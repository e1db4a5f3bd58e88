package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// committed REPO compares every config that a node was assigned since watchnodes, and every rendered config that the
// cluster has, with what `bunsen build` renders from the pushed commits of REPO. It fails on a config that no commit
// renders. Each pool directory of each commit is built alone, because a commit may hold errors elsewhere.
func (s *story) committed(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 || s.watch == nil {
		return usage("committed REPO, after watchnodes")
	}
	if err := s.catchUp(); err != nil {
		return err
	}
	known, err := s.renderedByCommits(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	list, err := s.cluster.dynamic.Resource(kinds["mc"].GroupVersionResource).List(context.Background(),
		metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing MachineConfigs: %w", err)
	}
	found := s.watch.assignments()
	for _, mc := range list.Items {
		if strings.HasPrefix(mc.GetName(), "rendered-") {
			found[mc.GetName()] = append(found[mc.GetName()], "the cluster")
		}
	}
	var wrong []string
	for config, holders := range found {
		if known[config] == "" {
			wrong = append(wrong, fmt.Sprintf("%s, of %s", config, strings.Join(holders, ", ")))
		}
	}
	sort.Strings(wrong)
	if len(wrong) > 0 {
		return fmt.Errorf("no pushed commit renders these configs:\n  %s\ncommits render:\n  %s",
			strings.Join(wrong, "\n  "), strings.Join(listed(known), "\n  "))
	}
	ts.Logf("%d configs, each rendered by a commit:\n%s", len(found), strings.Join(listed(known), "\n"))
	return nil
}

// listed are the entries of a map as lines, in order.
func listed(m map[string]string) []string {
	var out []string
	for k, v := range m {
		out = append(out, k+" "+v)
	}
	sort.Strings(out)
	return out
}

// renderedByCommits returns the rendered configs of all commits of a clone, with the subject of the commit.
func (s *story) renderedByCommits(tree string) (map[string]string, error) {
	log, err := exec.Command("git", "-C", tree, "log", "--all", "--format=%H %s").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the commits of %s: %w", tree, err)
	}
	known := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(log)), "\n") {
		hash, subject, _ := strings.Cut(line, " ")
		names, err := s.renderedBy(tree, hash)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			known[name] = subject
		}
	}
	return known, nil
}

// renderedBy returns the names of the configs that one commit renders to. A commit with errors has none.
func (s *story) renderedBy(tree, hash string) ([]string, error) {
	dir, err := os.MkdirTemp(s.work, "commit-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	archive := exec.Command("sh", "-c", `git -C "$0" archive "$1" | tar -x -C "$2"`, tree, hash, dir)
	if out, err := archive.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("reading commit %s: %w\n%s", hash, err, out)
	}
	build := exec.Command(filepath.Join(s.bin, "bunsen"), "build", "-o", "json")
	build.Dir = dir
	out, err := build.Output()
	if err != nil {
		return nil, nil // the story pushed something that cannot be built, on purpose
	}
	var names []string
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for decoder.More() {
		var mc metav1.PartialObjectMetadata
		if err := decoder.Decode(&mc); err != nil {
			return nil, fmt.Errorf("reading what commit %s renders to: %w", hash, err)
		}
		names = append(names, mc.Name)
	}
	return names, nil
}

// assignments are the configs that nodes were assigned since the record began, with the nodes.
func (w *watcher) assignments() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string][]string{}
	for config, nodes := range w.assigned {
		for node := range nodes {
			out[config] = append(out[config], node)
		}
		sort.Strings(out[config])
	}
	return out
}
