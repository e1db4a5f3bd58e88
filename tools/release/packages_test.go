package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/tools/linked"
)

func checkSums(t *testing.T, out string, key *ecdsa.PublicKey) {
	t.Helper()
	// As bunsen-release.yml uploads them: the page of a release has no folders.
	page := t.TempDir()
	for _, pattern := range []string{"*", "schemas/*"} {
		found, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range found {
			if info, err := os.Stat(at); err != nil || info.IsDir() {
				continue
			}
			if err := os.Symlink(at, filepath.Join(page, filepath.Base(at))); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = page
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if all, err := os.ReadDir(page); err != nil || len(all) != strings.Count(string(text), ": OK\n")+2 {
		t.Errorf("%d files are published, and SHA256SUMS without its signature has\n%s", len(all), text)
	}
	for _, file := range []string{
		"install.yaml", "crds.yaml", "butane.json", "images.json", "bunsen-" + number + ".tgz",
		"bunsen-" + version + "-linux-" + arch() + ".tar.gz",
		"bunsen-programs-" + version + "-linux-" + arch() + ".tar.gz", "bunsen.yaml", "bunsen.rb",
		"bunsen_" + number + "_" + arch() + ".deb", "bunsen-" + number + "-1." + alpineArch[arch()] + ".rpm",
		"bunsen-" + number + "-r0." + alpineArch[arch()] + ".apk",
		"machine-config-daemon-" + number + "-1." + alpineArch[arch()] + ".rpm",
		"machine-config-daemon-" + version + "-linux-" + arch(), debName(), rawName(),
	} {
		if !strings.Contains(string(text), file+": OK\n") {
			t.Errorf("SHA256SUMS lacks %s:\n%s", file, text)
		}
	}
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := os.ReadFile(filepath.Join(out, "SHA256SUMS.sig"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(encoded)))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(sums); !ecdsa.VerifyASN1(key, sum[:], signed) {
		t.Error("the signature of SHA256SUMS is not that of the key")
	}
}

// checkArchive unpacks an archive, as its users do, and runs its programs.
func checkArchive(t *testing.T, out string) {
	t.Helper()
	name, dir := "bunsen-programs-"+version+"-linux-"+arch(), t.TempDir()
	unpack := exec.Command("tar", "-xzf", filepath.Join(out, name+".tar.gz"), "-C", dir)
	if text, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	entries, err := os.ReadDir(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode()&0o111 == 0 {
			continue
		}
		names = append(names, e.Name())
		help, err := exec.Command(filepath.Join(dir, name, e.Name()), "--help").CombinedOutput()
		if err != nil || !strings.Contains(string(help), e.Name()) {
			t.Errorf("%s --help of the archive: %v\n%s", e.Name(), err, help)
		}
	}
	got, err := exec.Command(filepath.Join(dir, name, "bunsen"), "version").Output()
	if err != nil {
		t.Errorf("bunsen version of the archive: %v", err)
	}
	want, err := exec.Command(filepath.Join(os.Getenv("BUNSEN_BIN"), "bunsen"), "version").Output()
	if err != nil || !bytes.Equal(got, want) || !bytes.HasPrefix(got, []byte("bunsen ")) {
		t.Errorf("bunsen version of the archive prints %q; want %q, %v", got, want, err)
	}
	if want := []string{
		"bunsen", "machine-config-controller", "machine-config-daemon",
		"machine-config-server",
	}; !slices.Equal(names, want) {
		t.Errorf("the archive has the programs %q, want %q", names, want)
	}
}

func TestTwoFilesOfOneName(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "schemas"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "images.json"), "{}")
	write(t, filepath.Join(dir, "schemas", "images.json"), "{}")
	err := writeSums(dir, "")
	if err == nil || !strings.Contains(err.Error(), "two files of the release would be named images.json") {
		t.Errorf("the checksums: %v", err)
	}
}

func debName() string { return "machine-config-daemon_" + number + "_" + arch() + ".deb" }

func rawName() string { return "machine-config-daemon-" + version + "-" + systemdArch[arch()] + ".raw" }

// checkDaemonTree starts the daemon that a package has, and has systemd check its units.
func checkDaemonTree(t *testing.T, root string) {
	t.Helper()
	daemon := filepath.Join(root, "usr/bin/machine-config-daemon")
	if out, err := exec.Command(daemon, "version").CombinedOutput(); err != nil {
		t.Errorf("starting %s: %v\n%s", daemon, err, out)
	}
	units, err := filepath.Glob(filepath.Join(root, "usr/lib/systemd/system/*.service"))
	if err != nil || len(units) != 4 {
		t.Fatalf("the units are %q, %v", units, err)
	}
	for _, u := range units {
		text, err := os.ReadFile(u)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nExecStart=/usr/bin/machine-config-daemon ") ||
			strings.Contains(string(text), "/usr/local") {
			t.Errorf("%s starts another program:\n%s", filepath.Base(u), text)
		}
	}
}

func checkDebianPackage(t *testing.T, out string) {
	t.Helper()
	deb := filepath.Join(out, debName())
	fields, err := exec.Command("dpkg-deb", "--field", deb, "Package", "Version", "Architecture").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, fields)
	}
	if want := "Package: machine-config-daemon\nVersion: " + number + "\nArchitecture: " + arch() +
		"\n"; string(fields) != want {
		t.Errorf("the package says\n%swant\n%s", fields, want)
	}
	root := t.TempDir()
	if text, err := exec.Command("dpkg-deb", "--extract", deb, root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	checkDaemonTree(t, root)
	scripts := t.TempDir()
	if text, err := exec.Command("dpkg-deb", "--control", deb, scripts).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, script := range []string{"preinst", "postinst", "prerm", "postrm"} {
		if _, err := os.Stat(filepath.Join(scripts, script)); err == nil {
			t.Errorf("the package has the script %s: the daemon starts only where an administrator enables it", script)
		}
	}
}

func checkExtension(t *testing.T, out string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if text, err := exec.Command("unsquashfs", "-no-progress", "-dest", root, filepath.Join(out, rawName())).
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	checkDaemonTree(t, root)
	text, err := os.ReadFile(filepath.Join(root, "usr/lib/extension-release.d/extension-release.machine-config-daemon"))
	if err != nil || !strings.Contains(string(text), "ID=_any\nARCHITECTURE="+systemdArch[arch()]+"\n") {
		t.Errorf("the extension is for\n%s, %v", text, err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 || entries[0].Name() != "usr" {
		t.Errorf("the extension has %v beside usr, %v: systemd-sysext merges /usr and /opt alone", entries, err)
	}
}

func checkManifest(t *testing.T, out, repository string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "image: "+repository+"/machine-config-"); n != 5 {
		t.Errorf("install.yaml has %d images of this release, want those of three programs, the daemon in the pod of "+
			"the server, and the notifier", n)
	}
}

func TestTheSameCommitGivesTheSamePackages(t *testing.T) {
	c := commit{Version: "v1.2.3", Revision: strings.Repeat("a", 40), Time: time.Unix(1_700_000_000, 0).UTC()}
	p := program{binary: binary{Name: daemonName, Purpose: "Applies"}, Platform: linked.Platform{
		OS:   "linux",
		Arch: "arm64",
	}, Executable: []byte("elf"), Notices: []byte("n"), Bill: []byte("{}")}
	units, err := daemonUnits(root)
	if err != nil {
		t.Fatal(err)
	}
	daemon := linuxPackage{
		Name: p.Name, Purpose: p.Purpose, Arch: "arm64", Files: daemonFiles(p, units),
		Links: map[string]string{"usr/bin/kubectl-x": "x"},
	}
	var debs, rpms, apks, archives, zips, images [2][]byte
	for i := range 2 {
		for format, both := range map[string]*[2][]byte{"deb": &debs, "rpm": &rpms, "apk": &apks} {
			if both[i], err = daemon.content(format, c); err != nil {
				t.Fatal(err)
			}
		}
		if zips[i], err = zipped("x", daemon.Files, c.Time); err != nil {
			t.Fatal(err)
		}
		if archives[i], err = compressed("x", []program{p}, []byte("licence"), c.Time); err != nil {
			t.Fatal(err)
		}
		raw := filepath.Join(t.TempDir(), "x.raw")
		if err := writeExtension(t.Context(), raw, p, units, c); err != nil {
			t.Fatal(err)
		}
		if images[i], err = os.ReadFile(raw); err != nil {
			t.Fatal(err)
		}
	}
	for what, both := range map[string][2][]byte{
		"Debian package": debs, "RPM package": rpms, "Alpine package": apks, "archive": archives, "zip": zips,
		"extension image": images,
	} {
		if !bytes.Equal(both[0], both[1]) {
			t.Errorf("two builds of the %s differ", what)
		}
	}
}

func TestVersionsAreOrderedAsReleases(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for from, want := range map[string][3]string{
		"v1.2.3":             {"1.2.3", "1.2.3", "1.2.3"},
		"1.2.3":              {"1.2.3", "1.2.3", "1.2.3"},
		"v1.2.3-rc.1":        {"1.2.3~rc.1", "1.2.3~rc.1", "1.2.3_rc1"},
		"v1.2.3-4-gabcdef0":  {"1.2.3-4-gabcdef0", "1.2.3^4.gabcdef0", "1.2.3_p4"},
		"v1.2.3-4-gab-dirty": {"1.2.3-4-gab-dirty", "1.2.3^4.gab.dirty", "1.2.3_p4"},
		"806c246":            {"0~806c246", "0~806c246", "0_git20260102030405"},
		"dev":                {"0~dev", "0~dev", "0_git20260102030405"},
	} {
		if got := [3]string{debianVersion(from), rpmVersion(from), alpineVersion(from, at)}; got != want {
			t.Errorf("version %s is %q for Debian, RPM and Alpine, want %q", from, got, want)
		}
	}
	for _, order := range [][2]string{{"0~806c246", "0.1.0"}, {"1.2.3~rc.1", "1.2.3"}, {"1.2.3", "1.2.3-4-gabcdef0"}} {
		if out, err := exec.Command("dpkg", "--compare-versions", order[0], "lt", order[1]).
			CombinedOutput(); err != nil {
			t.Errorf("%s does not come before %s: %v %s", order[0], order[1], err, out)
		}
	}
}
