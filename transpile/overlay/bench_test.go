package overlay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// manyFiles is a document of five files.
func manyFiles(salt int) string {
	doc := head + "storage:\n  files:\n"
	for i := range 5 {
		doc += fmt.Sprintf("    - path: /etc/app/%d-%d.conf\n      mode: 0644\n      overwrite: true\n"+
			"      user: {name: root}\n      contents:\n        inline: |\n          # setting %[1]d of %d\n"+
			"          key = value\n          other = 0644\n", salt, i)
	}
	return doc
}

// onDisk writes n documents of five files each, and for each of them what more gives.
func onDisk(b *testing.B, n int, more func(i int) map[string]string) string {
	root := b.TempDir()
	for i := range n {
		put(b, root, fmt.Sprintf("o/%04d-app.bu", i), manyFiles(i))
		for name, text := range more(i) {
			put(b, root, name, text)
		}
	}
	return root
}

func put(tb testing.TB, root, name, text string) {
	tb.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// cpu runs a benchmark and reports the process's time on all processors, which a busy machine does not change.
func cpu(b *testing.B, once func()) {
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		once()
		n++
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	used := time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(used.Microseconds())/1000/float64(n), "cpu-ms/op")
}

func build(b *testing.B, root, dir string, want int) {
	built, found := overlay.Build(os.DirFS(root), dir, nil)
	if len(built.Documents) != want {
		b.Fatal(len(built.Documents), found)
	}
}

func nothing(int) map[string]string { return nil }

// overlayOf lists all documents of o and patches them.
func overlayOf(n int, each bool) string {
	out := "resources: [../o]\npatches:\n"
	if !each {
		return out + "  - target: {kind: Butane}\n    patch: |-\n      systemd: {units: [{name: x.service, enabled: " +
			"true}]}\n"
	}
	for i := range n {
		out += fmt.Sprintf("  - path: %04d-app.bu\n", i)
	}
	return out
}

func patchEach(i int) map[string]string {
	return map[string]string{
		fmt.Sprintf("p/%04d-app.bu", i): fmt.Sprintf("storage:\n  files:\n    - path: /etc/app/%d-0.conf\n      mode: 0600\n", i),
	}
}

func BenchmarkPlain(b *testing.B) {
	for _, n := range []int{100, 1000, 4000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			root := onDisk(b, n, nothing)
			cpu(b, func() { build(b, root, "o", n) })
		})
	}
}

func BenchmarkPatched(b *testing.B) {
	for name, each := range map[string]bool{"one for all": false, "each its own": true} {
		for _, n := range []int{100, 1000, 4000} {
			more := nothing
			if each {
				more = patchEach
			}
			root := onDisk(b, n, more)
			put(b, root, "p/kustomization.yaml", overlayOf(n, each))
			b.Run(name+"/"+strconv.Itoa(n), func(b *testing.B) {
				cpu(b, func() { build(b, root, "p", n) })
			})
		}
	}
}
