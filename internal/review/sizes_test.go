package review_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/source"
)

// document is a Butane document with files. A value that begins with https:// is an address, others are local files.
func document(files ...[2]string) string {
	text := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n"
	for _, f := range files {
		text += fmt.Sprintf("    - path: %s\n      contents:\n", f[0])
		if strings.HasPrefix(f[1], "https://") {
			text += fmt.Sprintf("        source: %s\n        verification: {hash: sha512-%s}\n", f[1],
				strings.Repeat("0a", 64))
			continue
		}
		text += fmt.Sprintf("        local: %s\n", f[1])
	}
	return text
}

// TestTheReviewSaysHowMuchNodesDownload: the sizes of files of the content store are known, those behind addresses are
// not.
func TestTheReviewSaysHowMuchNodesDownload(t *testing.T) {
	agent, tool := slices.Repeat([]byte("agent 1\n"), 3<<17), slices.Repeat([]byte("tool\n"), 1<<20)
	local := func(text string, files map[string][]byte) fstest.MapFS {
		tree := fstest.MapFS{"pools/worker/10-a.bu": {Data: []byte(text)}}
		for name, data := range files {
			tree["pools/worker/"+name] = &fstest.MapFile{Data: data}
		}
		return tree
	}
	both := map[string][]byte{"agent": agent, "tool": tool}
	part := slices.Repeat([]byte("part\n"), 150<<10) // one of them fits into a config, and two do not
	for says, c := range map[string]struct {
		base, head fstest.MapFS
		nodes      int
		want       string
		bytes      []int64
	}{
		"one file, and the number of nodes is not known": {
			local("", nil), local(document([2]string{"/opt/agent", "agent"}), map[string][]byte{"agent": agent}), 0,
			"nodes of worker download /opt/agent from the content store, sha512-19f61c2292c9… (3 MiB)\n",
			[]int64{3 << 20},
		},
		"three nodes": {
			local("", nil), local(document([2]string{"/opt/agent", "agent"}), map[string][]byte{"agent": agent}), 3,
			"(3 MiB); 3 nodes download 3 MiB each, 9 MiB together\n",
			[]int64{3 << 20},
		},
		"two files, one of which is twice in the config": {
			local("", nil), local(document([2]string{"/opt/agent", "agent"}, [2]string{"/opt/again", "agent"},
				[2]string{"/opt/tool", "tool"}), both), 0,
			"(5 MiB); 8 MiB for each node\n",
			[]int64{3 << 20, 5 << 20},
		},
		"a file whose size no document has": {
			local("", nil),
			local(document([2]string{"/opt/agent", "agent"}, [2]string{"/opt/x", "https://example.com/x"}),
				map[string][]byte{"agent": agent}), 2,
			"/opt/x from https://example.com/x (size unknown); 2 nodes download at least 3 MiB each, 6 MiB together\n",
			[]int64{3 << 20, 0},
		},
		"a file that nodes have": {
			local(document([2]string{"/opt/agent", "agent"}), both),
			local(document([2]string{"/opt/agent", "agent"}, [2]string{"/opt/tool", "tool"}), both), 1,
			"nodes of worker download /opt/tool from the content store, sha512-",
			[]int64{5 << 20},
		},
		"a file that moves to the content store stays on nodes": {
			local(document([2]string{"/opt/a", "a"}), map[string][]byte{"a": append(slices.Clip(part), "aaa"...)}),
			local(document([2]string{"/opt/a", "a"}, [2]string{"/opt/b", "b"}, [2]string{"/opt/c", "c"}),
				map[string][]byte{
					"a": append(slices.Clip(part), "aaa"...), "b": append(slices.Clip(part), 'b'),
					"c": part,
				}), 1,
			"nodes of worker download /opt/b from the content store, sha512-",
			[]int64{int64(len(part)) + 1},
		},
	} {
		t.Run(says, func(t *testing.T) {
			var renderings review.Renderings
			renderings.AllowLargeFiles(true)
			sides := map[string]review.Side{}
			for name, files := range map[string]fstest.MapFS{"base": c.base, "head": c.head} {
				files["pools/worker/00-motd.bu"] = &fstest.MapFile{Data: []byte("variant: fcos\nversion: 1.6.0\n" +
					"storage: {files: [{path: /etc/motd, contents: {inline: a}}]}\n")}
				if text := files["pools/worker/10-a.bu"].Data; len(text) == 0 {
					delete(files, "pools/worker/10-a.bu")
				}
				root := t.TempDir()
				if err := os.CopyFS(root, files); err != nil {
					t.Fatal(err)
				}
				res, r, err := renderings.Render(source.Tree{Root: root, FS: os.DirFS(root), Digest: "sha256:" +
					t.Name() + name}, nil)
				if err != nil || r.Err != nil || len(r.Pools) != 1 {
					t.Fatal(name, err, r.Err, res.Report)
				}
				sides[name] = r.Side(name)
			}
			found := review.Compare(sides["base"], sides["head"])
			if c.nodes > 0 {
				found = found.WithFacts(review.Facts{Pools: map[string]review.PoolFacts{"worker": {Nodes: c.nodes}}})
			}
			if text := report.Text(found, report.Style{}); !strings.Contains(text, c.want) {
				t.Errorf("the review does not say %q:\n%s", c.want, text)
			}
			if text := report.Markdown(found, report.MarkdownOptions{}); !strings.Contains(text, " MiB)") &&
				!strings.Contains(text, " KiB)") {
				t.Errorf("the comment has no size:\n%s", text)
			}
			var bytes []int64
			for _, f := range found.Pools[0].Fetches {
				bytes = append(bytes, f.Bytes)
			}
			if !slices.Equal(bytes, c.bytes) {
				text, _ := json.Marshal(found.Pools[0].Fetches)
				t.Errorf("the downloads have %v bytes, and not %v: %s", bytes, c.bytes, text)
			}
		})
	}
}

// TestTheReviewSaysWhatTheClusterStoresForSingleNodes: every row costs the API server a whole config, whether or not
// its node exists.
func TestTheReviewSaysWhatTheClusterStoresForSingleNodes(t *testing.T) {
	const begin = "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n"
	tree := func(rows int, address string) fstest.MapFS {
		table := ""
		for i := range rows {
			table += fmt.Sprintf("node-%d: {address: %s.%d}\n", i, address, i)
		}
		out := fstest.MapFS{"pools/worker/10-a.bu": {Data: []byte(begin + "    - {path: /etc/big, contents: {inline: " + strings.Repeat("x", 20<<10) + "}}\n")}}
		if rows > 0 {
			out["pools/worker/nodes.yaml"] = &fstest.MapFile{Data: []byte(table)}
			out["pools/worker/20-address.bu"] = &fstest.MapFile{Data: []byte(begin +
				"    - {path: /etc/address, contents: {inline: \"${node.address}\"}}\n")}
		}
		return out
	}
	for says, c := range map[string]struct {
		base, head fstest.MapFS
		want       string
	}{
		"many new rows":       {tree(0, ""), tree(100, "a"), "stores 100 configs of up to 2.8 MiB together"},
		"a few new rows":      {tree(0, ""), tree(9, "a"), ""},
		"rows as before":      {tree(100, "a"), tree(100, "a"), ""},
		"more rows":           {tree(30, "a"), tree(100, "a"), "stores 70 configs of up to 1.9 MiB together"},
		"other values of all": {tree(100, "a"), tree(100, "b"), "stores 100 configs of up to 2.8 MiB together"},
		"fewer rows":          {tree(100, "a"), tree(30, "a"), ""},
	} {
		t.Run(says, func(t *testing.T) {
			var renderings review.Renderings
			sides := map[string]review.Side{}
			for name, files := range map[string]fstest.MapFS{"base": c.base, "head": c.head} {
				root := t.TempDir()
				if err := os.CopyFS(root, files); err != nil {
					t.Fatal(err)
				}
				res, r, err := renderings.Render(source.Tree{Root: root, FS: os.DirFS(root), Digest: "sha256:" +
					t.Name() + name}, nil)
				if err != nil || r.Err != nil || len(r.Pools) != 1 {
					t.Fatal(name, err, r.Err, res.Report)
				}
				sides[name] = r.Side(name)
			}
			found := review.Compare(sides["base"], sides["head"])
			text, markdown := report.Text(found, report.Style{}), report.Markdown(found, report.MarkdownOptions{})
			if has := strings.Contains(text, " on its API server"); has != (c.want != "") ||
				!strings.Contains(text, c.want) {
				t.Errorf("the review does not say %q:\n%s", c.want, text)
			}
			if has := strings.Contains(markdown, "Stored on the API server"); has != (c.want != "") {
				t.Errorf("the comment differs from the text:\n%s", markdown)
			}
			raw, err := json.Marshal(found)
			if err != nil {
				t.Fatal(err)
			}
			if problems := readSchema(t).check(t, raw); len(problems) > 0 {
				t.Errorf("the schema does not take it: %s", strings.Join(problems, "; "))
			}
		})
	}
}
