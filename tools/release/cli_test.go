package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// checkCLIArchive unpacks the archive of the CLI as its users do, and validates a repository with it.
func checkCLIArchive(t *testing.T, out string) {
	name, dir := "bunsen-"+version+"-linux-"+arch(), t.TempDir()
	unpack := exec.Command("tar", "-xzf", filepath.Join(out, name+".tar.gz"), "-C", dir)
	if text, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, file := range []string{
		"LICENSE", "notices.txt", "bunsen.cdx.json", "man/bunsen.1", "man/bunsen-validate.1",
		"completions/bunsen.bash", "completions/_bunsen", "completions/bunsen.fish", "completions/bunsen.ps1",
	} {
		if info, err := os.Stat(filepath.Join(dir, name, file)); err != nil || info.Size() == 0 {
			t.Errorf("the archive has no %s: %v", file, err)
		}
	}
	validate := exec.Command(filepath.Join(dir, name, "bunsen"), "validate", filepath.Join(root, "examples/quickstart"))
	if text, err := validate.CombinedOutput(); err != nil || !bytes.HasSuffix(text, []byte("valid\n")) {
		t.Errorf("validating an example: %v\n%s", err, text)
	}
	for shell, script := range map[string]string{"bash": "bunsen.bash", "zsh": "_bunsen", "fish": "bunsen.fish"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		if text, err := exec.Command(shell, "-n", filepath.Join(dir, name, "completions", script)).
			CombinedOutput(); err != nil {
			t.Errorf("%s does not read its script: %v\n%s", shell, err, text)
		}
	}
}

// output runs a program, such as one that reads a package, and returns what it prints.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	text, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, text)
	}
	return string(text)
}

// checkCLIPackages reads the packages of the CLI with the programs that install them, as far as this machine has them.
func checkCLIPackages(t *testing.T, out string) {
	deb := filepath.Join(out, "bunsen_"+number+"_"+arch()+".deb")
	t.Run("deb", func(t *testing.T) {
		installed := t.TempDir()
		output(t, "dpkg-deb", "--extract", deb, installed)
		checkInstalled(t, installed)
		if _, err := exec.LookPath("lintian"); err == nil {
			if text, err := exec.Command("lintian", "--fail-on", "error", deb, filepath.Join(out, debName())).
				CombinedOutput(); err != nil {
				t.Errorf("lintian: %v\n%s", err, text)
			}
		}
		if os.Geteuid() != 0 {
			return
		}
		// dpkg itself installs the package below a directory that has nothing but its own records.
		admin := filepath.Join(t.TempDir(), "root")
		for _, dir := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info"} {
			if err := os.MkdirAll(filepath.Join(admin, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(admin, "var/lib/dpkg/status"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		output(t, "dpkg", "--root="+admin, "--force-not-root", "--install", deb)
		checkInstalled(t, admin)
		if text := output(t, "dpkg-query", "--root="+admin, "-W", "-f", "${Status} ${Version}", "bunsen"); text !=
			"install ok installed "+number {
			t.Errorf("dpkg says %q", text)
		}
	})
	t.Run("rpm", func(t *testing.T) {
		if _, err := exec.LookPath("rpm"); err != nil {
			t.Skip("this machine has no rpm")
		}
		rpm := filepath.Join(out, "bunsen-"+number+"-1."+alpineArch[arch()]+".rpm")
		fields := output(t, "rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE} %{BUILDHOST}", rpm)
		if fields != "bunsen "+number+" 1 "+alpineArch[arch()]+" Apache-2.0 bunsen" {
			t.Errorf("rpm says %q", fields)
		}
		if text := output(t, "rpm", "-Kv", "--nosignature", rpm); strings.Contains(text, "BAD") {
			t.Errorf("rpm says %s", text)
		}
		if scripts := output(t, "rpm", "-qp", "--scripts", rpm); scripts != "" {
			t.Errorf("the package has scripts:\n%s", scripts)
		}
		if os.Geteuid() != 0 {
			return
		}
		installed := t.TempDir()
		output(t, "rpm", "--root", installed, "--dbpath", "/var/lib/rpm", "--nosignature", "--nodeps", "-i", rpm)
		checkInstalled(t, installed)
	})
	t.Run("apk", func(t *testing.T) {
		installed := unpackAlpine(t, filepath.Join(out, "bunsen-"+number+"-r0."+alpineArch[arch()]+".apk"))
		checkInstalled(t, installed)
	})
}

// checkInstalled runs what a package has installed below a directory.
func checkInstalled(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"bunsen", "kubectl-bunsen"} {
		if text := output(t, filepath.Join(dir, "usr/bin", name), "version"); !strings.HasPrefix(text, "bunsen ") {
			t.Errorf("%s version says %q", name, text)
		}
	}
	for _, name := range []string{
		"usr/share/man/man1/bunsen-validate.1.gz", "usr/share/bash-completion/completions/bunsen",
		"usr/share/doc/bunsen/notices.txt",
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// alpineName matches what apk accepts as a version.
var alpineName = regexp.MustCompile(`^\d+(\.\d+)*[a-z]?(_(alpha|beta|pre|rc|cvs|svn|git|hg|p)\d*)*-r\d+$`)

// unpackAlpine reads a package as apk does: parts that are compressed on their own, of which the first describes the
// second by its SHA-256, and unpacks the second.
func unpackAlpine(t *testing.T, name string) (dir string) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	var packed []string
	in := bufio.NewReader(bytes.NewReader(raw))
	for rest := len(raw); rest > 0; {
		z, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		content, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		after, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw[len(raw)-rest : len(raw)-len(after)])
		rest, parts, packed = len(after), append(parts, content), append(packed, fmt.Sprintf("%x", sum))
		in = bufio.NewReader(bytes.NewReader(after))
	}
	if len(parts) != 2 {
		t.Fatalf("%d parts, want the description and the files", len(parts))
	}
	info := map[string]string{}
	for line := range strings.Lines(untar(t, parts[0], "")[".PKGINFO"]) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			info[key] = value
		}
	}
	if info["pkgname"] != "bunsen" || !alpineName.MatchString(info["pkgver"]) || info["arch"] != alpineArch[arch()] ||
		info["license"] != "Apache-2.0" || info["datahash"] != packed[1] {
		t.Errorf("the package says %v; the hash of its files is %s", info, packed[1])
	}
	dir = t.TempDir()
	untar(t, parts[1], dir)
	return dir
}

// untar returns the files of an archive, and writes them to a directory unless that is empty.
func untar(t *testing.T, raw []byte, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
		at := filepath.Join(dir, h.Name)
		switch {
		case dir == "":
		case h.Typeflag == tar.TypeDir:
			err = os.MkdirAll(at, 0o755)
		case h.Typeflag == tar.TypeSymlink:
			err = os.Symlink(h.Linkname, at)
		default:
			if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
				err = os.WriteFile(at, content, os.FileMode(h.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkKrew has krew itself check its manifest, and install the plug-in from the archive.
func checkKrew(t *testing.T, out string) {
	manifest := filepath.Join(out, "bunsen.yaml")
	tool := func(env []string, args ...string) string {
		cmd := exec.Command("go", append([]string{"tool"}, args...)...)
		cmd.Env = append(os.Environ(), env...)
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, text)
		}
		return string(text)
	}
	tool(nil, "validate-krew-manifest", "-skip-install", "-manifest", manifest)
	home := t.TempDir()
	tool([]string{"KREW_ROOT=" + home, "KREW_NO_UPGRADE_CHECK=1"}, "krew", "install", "--manifest", manifest, "--archive",
		filepath.Join(out, "bunsen-"+version+"-linux-"+arch()+".tar.gz"))
	if text := output(t, filepath.Join(home, "bin", "kubectl-bunsen"), "version"); !strings.HasPrefix(text, "bunsen ") {
		t.Errorf("the plug-in says %q", text)
	}
}

// checkFormula has Ruby read the formula, in a world where Homebrew's words record what they are told.
func checkFormula(t *testing.T, out string) {
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("this machine has no Ruby")
	}
	name := filepath.Join(out, "bunsen.rb")
	output(t, "ruby", "-wc", name)
	archive, err := os.ReadFile(filepath.Join(out, "bunsen-"+version+"-linux-"+arch()+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	words := `class Formula
  class << self
    %w[desc homepage version license url sha256].each { |w| define_method(w) { |v| puts "#{w} #{v}" } }
    %w[on_linux on_macos on_arm on_intel].each { |w| define_method(w) { |&b| puts w; b.call } }
    def test; end
  end
end
load ARGV[0]
puts "install #{Bunsen.instance_method(:install).arity}"
`
	got := output(t, "ruby", "-e", words, name)
	want := fmt.Sprintf("desc Manage the operating system of a cluster's nodes from git\nhomepage %s\nversion %s\n"+
		"license Apache-2.0\non_linux\non_intel\nurl %s\nsha256 %x\ninstall 0\n", homepage, number,
		downloads+"/"+version+"/bunsen-"+version+"-linux-"+arch()+".tar.gz", sha256.Sum256(archive))
	if arch() == "amd64" && got != want {
		t.Errorf("the formula says\n%swant\n%s", got, want)
	}
}

// TestAnArchiveForEachLaptop packs programs of all platforms, and has krew and Ruby read what names them.
func TestAnArchiveForEachLaptop(t *testing.T) {
	c := commit{Version: "v1.2.3", Time: time.Unix(1_700_000_000, 0).UTC()}
	manual := []file{{"man/bunsen.1", 0o644, []byte("page")}, {"completions/bunsen.ps1", 0o644, []byte("script")}}
	var archives []cliArchive
	for _, at := range cliPlatforms {
		p := program{binary: binary{Name: "bunsen"}, Platform: at, Executable: []byte("program")}
		a, err := packCLI(p, manual, []byte("licence"), c)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, a)
		var names []string
		if at.OS == "windows" {
			r, err := zip.NewReader(bytes.NewReader(a.Content), int64(len(a.Content)))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.File {
				names = append(names, strings.TrimPrefix(f.Name, a.Dir+"/"))
			}
			if want := []string{
				"LICENSE", "bunsen.cdx.json", "bunsen.exe", "completions/bunsen.ps1", "notices.txt",
			}; !slices.Equal(names, want) || !strings.HasSuffix(a.Name, ".zip") {
				t.Errorf("%s has %q, want %q", a.Name, names, want)
			}
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(a.Content))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if files := untar(t, raw, ""); files[a.Dir+"/bunsen"] != "program" || files[a.Dir+"/man/bunsen.1"] != "page" {
			t.Errorf("%s has %v", a.Name, files)
		}
	}
	dir := t.TempDir()
	if err := writeManagers(buildOptions{Out: dir}, archives, c); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("go", "tool", "validate-krew-manifest", "-skip-install", "-manifest",
		filepath.Join(dir, "bunsen.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	formula, err := os.ReadFile(filepath.Join(dir, "bunsen.rb"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(formula), "sha256 "); n != 4 {
		t.Errorf("the formula has %d archives, want those of macOS and Linux:\n%s", n, formula)
	}
}

func TestOnlyFullVersionsHaveManagers(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3": true, "1.2.3": true, "v1.2.3-rc.1": false, "v1.2.3-4-gabcdef0": false, "v1.2.3-dirty": false,
		"dev": false, "806c246": false, "v1.2": false,
	} {
		dir := t.TempDir()
		if err := writeManagers(buildOptions{Out: dir}, nil, commit{Version: version}); err != nil {
			t.Fatal(err)
		}
		written, err := filepath.Glob(filepath.Join(dir, "bunsen.*"))
		if err != nil || len(written) != map[bool]int{true: 2}[want] {
			t.Errorf("%s has %q, %v", version, written, err)
		}
	}
}

func TestAProgramOfAnotherPlatformIsRefused(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range cliPlatforms[2:] {
		err := checkPlatform(program{binary: binary{Name: "bunsen"}, Platform: at, Executable: content})
		if err == nil || !strings.Contains(err.Error(), "is for linux/") {
			t.Errorf("a program of this machine for %s/%s: %v", at.OS, at.Arch, err)
		}
	}
	err = checkPlatform(program{binary: binary{Name: "bunsen"}, Platform: linked.Platform{OS: "darwin", Arch: "arm64"}})
	if err == nil || !strings.Contains(err.Error(), "reading for which platform") {
		t.Errorf("an empty program: %v", err)
	}
}
