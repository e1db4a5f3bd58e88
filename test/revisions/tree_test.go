package revisions

import "testing"

// TestTrees: the transpiler takes every tree but the broken ones.
func TestTrees(t *testing.T) {
	for repo := range digits {
		count := 1
		for _, d := range digits[repo] {
			count *= d.values
		}
		for tree := range count {
			if tree%17 != 0 {
				continue
			}
			b := build(repo, tree)
			if (b.err != nil) != (value(repo, tree, "flaw") == brokenTree) {
				t.Errorf("repository %d, tree %d (%s): %v", repo, tree, describeTree(repo, tree), b.err)
			}
		}
	}
}
