package main

import (
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

const valid = "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/a\n      contents: {inline: a}\n"

// hostile is a repository that somebody else wrote, and what the editor must say about it. OUTSIDE is in files that the
// server must not read.
type hostile struct {
	files map[string]string
	// make adds what is no file; outside is a directory beside the repository.
	make func(t *testing.T, dir, outside string)
	// want is in a problem of pools/worker/10-a.bu, or at another file's.
	at, want string
}

// TestAHostileRepository opens repositories as an attacker would write them. Whatever they are, the server answers,
// reads nothing outside of them, runs nothing, connects to nothing, and leaves nothing behind.
func TestAHostileRepository(t *testing.T) {
	var connections atomic.Int32
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = c.Close()
		}
	}()
	link := func(to, at string) func(*testing.T, string, string) {
		return func(t *testing.T, dir, outside string) {
			t.Helper()
			to := strings.ReplaceAll(to, "OUT", outside)
			at := filepath.Join(dir, at)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	pipe := func(at string) func(*testing.T, string, string) {
		return func(t *testing.T, dir, _ string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, at)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(filepath.Join(dir, at), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	local := strings.Replace(valid, "inline: a", "local: secret", 1)
	for sentence, c := range map[string]hostile{
		"a link to a file outside, which a document includes": {
			files: map[string]string{"pools/worker/10-a.bu": local},
			make:  link("OUT/secret", "pools/worker/secret"), want: "symbolic link",
		},
		"a link to a directory outside, which a document includes a file of": {
			files: map[string]string{"pools/worker/10-a.bu": strings.Replace(local, "local: secret",
				"local: d/secret", 1)},
			make: link("OUT", "pools/worker/d"), want: "symbolic link",
		},
		"a path with .. that a document includes": {
			files: map[string]string{"pools/worker/10-a.bu": strings.Replace(local, "local: secret",
				"local: ../../../outside/secret", 1)},
			want: "outside",
		},
		"an absolute path that a document includes": {
			files: map[string]string{"pools/worker/10-a.bu": strings.Replace(local, "local: secret",
				"local: /etc/passwd", 1)},
			want: "/etc/passwd",
		},
		"a base outside": {
			files: map[string]string{
				"pools/worker/10-a.bu":            valid,
				"pools/worker/kustomization.yaml": "resources: [10-a.bu, ../../../outside]\n",
			}, at: "pools/worker/kustomization.yaml", want: "outside",
		},
		"a base behind a link": {
			files: map[string]string{
				"pools/worker/10-a.bu":            valid,
				"pools/worker/kustomization.yaml": "resources: [10-a.bu, base]\n",
			}, make: link("OUT", "pools/worker/base"), at: "pools/worker/kustomization.yaml", want: "symbolic link",
		},
		"a remote base": {
			files: map[string]string{
				"pools/worker/10-a.bu":            valid,
				"pools/worker/kustomization.yaml": "resources: [10-a.bu, http://" + listener.Addr().String() + "/base]\n",
			}, at: "pools/worker/kustomization.yaml", want: "remote",
		},
		"a remote file": {
			files: map[string]string{"pools/worker/10-a.bu": strings.Replace(valid, "inline: a",
				"source: http://"+listener.Addr().String()+"/a", 1)},
			want: "hash",
		},
		"a generator that runs a program": {
			files: map[string]string{
				"pools/worker/10-a.bu":            valid,
				"pools/worker/kustomization.yaml": "resources: [10-a.bu]\ngenerators: [run.yaml]\n",
				"pools/worker/run.yaml": "apiVersion: v1\nkind: Run\nmetadata:\n  name: run\n  annotations:\n" +
					"    config.kubernetes.io/function: |\n      exec: {path: ./run}\n",
				"pools/worker/run": "#!/bin/sh\ntouch RAN\n",
			}, at: "pools/worker/kustomization.yaml", want: "generators run programs",
		},
		"a work tree whose config names programs": {
			files: map[string]string{
				"pools/worker/10-a.bu": valid + "      mod: 0644\n",
				".gitattributes":       "* filter=run\n",
				".git/HEAD":            "ref: refs/heads/main\n", ".git/refs/heads/main": "", ".git/objects/x": "",
				".git/info/exclude": "", ".git/index": "DIRC", ".git/hooks/post-index-change": "#!/bin/sh\ntouch RAN\n",
				".git/config": "[core]\n\tfsmonitor = touch RAN\n\thooksPath = .git/hooks\n[filter \"run\"]\n\t" +
					"clean = touch RAN\n\tsmudge = touch RAN\n",
			}, want: "mod",
		},
		"a .git that leads to another repository": {
			files: map[string]string{
				"pools/worker/10-a.bu": valid + "      mod: 0644\n", ".git": "gitdir: ../outside\n",
			},
			want: "mod",
		},
		"a .git full of pipes": {
			files: map[string]string{"pools/worker/10-a.bu": valid + "      mod: 0644\n"},
			make: func(t *testing.T, dir, outside string) {
				t.Helper()
				for _, p := range []string{".git/HEAD", ".git/config", ".git/index", ".git/info/exclude"} {
					pipe(p)(t, dir, outside)
				}
			}, want: "mod",
		},
		"a split index of pipes and links": {
			files: map[string]string{
				"pools/worker/10-a.bu": valid + "      mod: 0644\n",
				"a.key":                "AGE-SECRET-" + "KEY-1" + strings.Repeat("Q", 58) + "\n",
				".git/HEAD":            "ref: refs/heads/main\n", ".git/refs/heads/main": "", ".git/objects/x": "",
				".git/info/exclude": "", ".git/config": "",
			},
			make: func(t *testing.T, dir, outside string) {
				t.Helper()
				pipe(".git/sharedindex.a")(t, dir, outside)
				link("OUT/index", ".git/sharedindex.b")(t, dir, outside)
			}, want: "mod",
		},
		"lists of many ignored files": {
			files: map[string]string{
				"pools/worker/10-a.bu": valid + "      mod: 0644\n",
				"a.key":                "AGE-SECRET-" + "KEY-1" + strings.Repeat("Q", 58) + "\n",
				".git/HEAD":            "ref: refs/heads/main\n", ".git/refs/heads/main": "", ".git/objects/x": "",
				".git/info/exclude": "", ".git/config": "",
			},
			make: func(t *testing.T, dir, _ string) {
				t.Helper()
				write(t, filepath.Join(dir, ".gitignore"), strings.Repeat("a\n", 30<<20))
			}, want: "mod",
		},
		"an index of a terabyte": {
			files: map[string]string{
				"pools/worker/10-a.bu": valid + "      mod: 0644\n# AGE-SECRET-" + "KEY-1" + strings.Repeat("Q", 58) + "\n",
				".git/HEAD":            "ref: refs/heads/main\n", ".git/refs/heads/main": "", ".git/objects/x": "",
				".git/info/exclude": "", ".git/index": "DIRC", ".git/config": "",
			},
			make: func(t *testing.T, dir, _ string) {
				t.Helper()
				if err := os.Truncate(filepath.Join(dir, ".git/index"), 1<<40); err != nil {
					t.Fatal(err)
				}
			}, want: "mod",
		},
		"a pipe in place of a document": {
			files: map[string]string{"pools/worker/10-a.bu": valid},
			make:  pipe("pools/worker/20-b.bu"), want: "20-b.bu",
		},
		"pipes in place of .gitignore and .sops.yaml": {
			files: map[string]string{"pools/worker/10-a.bu": valid + "      mod: 0644\n"},
			make: func(t *testing.T, dir, outside string) {
				t.Helper()
				pipe(".gitignore")(t, dir, outside)
				pipe("pools/.sops.yaml")(t, dir, outside)
			}, want: "mod",
		},
		"a link in place of pools/": {
			files: map[string]string{"other/10-a.bu": valid}, make: link("OUT", "pools"), at: "-",
		},
		"aliases that unfold into gigabytes": {
			files: map[string]string{"pools/worker/10-a.bu": "a: &a [x, x, x, x, x, x, x, x, x]\n" + bomb()},
			want:  "alias",
		},
		"a deeply nested document": {
			files: map[string]string{"pools/worker/10-a.bu": "variant: fcos\nversion: 1.6.0\nx: " +
				strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "\n"},
			want: "deep",
		},
		"a document of many megabytes": {
			files: map[string]string{"pools/worker/10-a.bu": valid + "# " + strings.Repeat("x", 9<<20) + "\n"},
			want:  "bytes",
		},
		"more files than a tree may have": {
			files: map[string]string{"pools/worker/10-a.bu": valid},
			make: func(t *testing.T, dir, _ string) {
				t.Helper()
				for i := range 20_001 {
					if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}, want: "more than 20000 files",
		},
		"a name that is a command in Markdown and in a terminal": {
			files: map[string]string{"pools/worker/10-a.bu": strings.Replace(valid, "/etc/a",
				"\"/etc/`[x](command:run)\\e]0;\\a\"", 1)},
			want: "path",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			top := t.TempDir()
			dir, outside, temp := filepath.Join(top, "repo"), filepath.Join(top, "outside"), filepath.Join(top, "temp")
			for name, text := range map[string]string{
				"secret": "OUTSIDE", "20-b.bu": strings.Replace(valid, "inline: a", "inline: OUTSIDE", 1),
				"kustomization.yaml": "resources: [20-b.bu]\n", "worker/20-b.bu": valid + "# OUTSIDE\n", "index": "OUTSIDE",
			} {
				write(t, filepath.Join(outside, name), text)
			}
			for name, text := range c.files {
				write(t, filepath.Join(dir, name), strings.ReplaceAll(text, "RAN", filepath.Join(top, "ran")))
			}
			if err := os.MkdirAll(temp, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.make != nil {
				c.make(t, dir, outside)
			}
			t.Run("opened", func(t *testing.T) {
				e := startEditor(t, dir, (&url.URL{Scheme: "file", Path: dir}).String(), "TMPDIR="+temp)
				const document = "pools/worker/10-a.bu"
				at := document
				if c.at != "" && c.at != "-" {
					at = c.at
				}
				e.open(document, c.files[document])
				if at != document && c.files[at] != "" {
					e.open(at, c.files[at])
				}
				if c.at != "-" {
					found := e.problems(at)
					for !strings.Contains(fmt.Sprint(found), c.want) {
						found = e.problems(at) // It ends the test if there are no more.
					}
				}
				for _, line := range []int{0, 4, 5, -7, 1 << 30} {
					for _, m := range []string{"hover", "definition", "references", "completion"} {
						var out any
						e.call("textDocument/"+m, map[string]any{
							"textDocument": map[string]any{"uri": e.uri(document)}, "position": spot{line, 14},
						}, &out)
						text := fmt.Sprint(out)
						if strings.Contains(text, "OUTSIDE") || strings.Contains(text, "`[x]") {
							t.Errorf("%s says %s", m, text)
						}
					}
				}
				// A file outside, a way to it, another machine, another scheme: the server has only their texts.
				for _, uri := range []string{
					"file://" + outside + "/20-b.bu",
					"file://" + dir + "/../outside/worker/20-b.bu",
					"file://example.com" + dir + "/pools/worker/x.bu", "untitled:x", "file://" + dir + "/.git/hooks/x.bu",
				} {
					e.open(uri, valid)
					var out any
					e.call("textDocument/hover", map[string]any{
						"textDocument": map[string]any{"uri": uri}, "position": spot{4, 14},
					}, &out)
				}
				for _, file := range regularFiles(t, temp) {
					if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "OUTSIDE") {
						t.Errorf("the server read what is outside: %s has %q", file, text)
					}
				}
			})
			if _, err := os.Stat(filepath.Join(top, "ran")); err == nil {
				t.Error("the server ran a program of the repository")
			}
			if left := regularFiles(t, temp); len(left) > 0 {
				t.Errorf("the server left %s", left)
			}
		})
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("the server connected %d times", n)
	}
}

func bomb() string {
	var b strings.Builder
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&b, "%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9))
	}
	return b.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func regularFiles(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, p)
		}
		return nil // The server may remove files meanwhile.
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
