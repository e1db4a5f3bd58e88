package vm

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheBootLoaderReadsAnEntryAsOSTreeWritesIt(t *testing.T) {
	e := parseEntry("title Debian v1 (ostree:0)\nversion 12\noptions root=LABEL=root rw " +
		"ostree=/ostree/boot.1/lab/x/0\nlinux /ostree/lab-x/vmlinuz-6\ninitrd /ostree/lab-x/initramfs-6.img\n")
	want := entry{
		version: 12, title: "Debian v1 (ostree:0)",
		options: "root=LABEL=root rw ostree=/ostree/boot.1/lab/x/0", linux: "/ostree/lab-x/vmlinuz-6",
		initrd: "/ostree/lab-x/initramfs-6.img",
	}
	if e != want {
		t.Errorf("got %+v", e)
	}
}

func TestATranscriptHasNoAddressOfElsewhere(t *testing.T) {
	for text, fine := range map[string]bool{
		"https://10.0.2.100:22623 127.0.0.1": true, "Commit 1.2.3": true, "GET http://198.51.100.7/": false,
		"nameserver 10.0.0.2": false,
	} {
		w := &transcript{t: t, hide: strings.NewReplacer("/secret/place", "RUN")}
		w.show("$", "ls /secret/place", text)
		if err := w.save(filepath.Join(t.TempDir(), "page.md"), "# head\n"); (err == nil) != fine {
			t.Errorf("%q: %v", text, err)
		}
		if strings.Contains(w.body.String(), "/secret") {
			t.Errorf("the page has a path of this machine:\n%s", w.body.String())
		}
	}
}
