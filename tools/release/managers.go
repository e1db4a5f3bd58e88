package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// downloads is where GitHub serves the files of a release.
const downloads = homepage + "/releases/download"

// url returns where users download a file of the release.
func (o buildOptions) url(c commit, name string) string {
	base := o.Downloads
	if base == "" {
		base = downloads + "/" + tagOf(c.Version)
	}
	return base + "/" + name
}

// tagOf returns the tag of a version.
func tagOf(version string) string { return "v" + strings.TrimPrefix(version, "v") }

// writeManagers writes the manifest of krew and the formula of Homebrew. A candidate and a build of another commit have
// none.
func writeManagers(o buildOptions, archives []cliArchive, c commit) error {
	if !isFull(c.Version) {
		fmt.Fprintf(os.Stderr, "%s is no full version, so there are no bunsen.yaml for krew and bunsen.rb for "+
			"Homebrew\n", c.Version)
		return nil
	}
	plugin, err := krewPlugin(o, archives, c)
	if err != nil {
		return err
	}
	formula, err := brewFormula(o, archives, c)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"bunsen.yaml": plugin, "bunsen.rb": formula,
	} {
		if err := os.WriteFile(filepath.Join(o.Out, name), text, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// The manifest of a plug-in of kubectl, in the format of krew.
type (
	krewManifest struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   krewName `json:"metadata"`
		Spec       krewSpec `json:"spec"`
	}
	krewName struct {
		Name string `json:"name"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector `json:"selector"`
		URI      string       `json:"uri"`
		SHA256   string       `json:"sha256"`
		Files    []krewFile   `json:"files"`
		Bin      string       `json:"bin"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	krewFile struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
)

// krewPlugin returns the manifest for krew.
func krewPlugin(o buildOptions, archives []cliArchive, c commit) ([]byte, error) {
	m := krewManifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewName{cliName},
		Spec: krewSpec{
			Version: tagOf(c.Version), Homepage: homepage,
			ShortDescription: "Manage the OS of nodes from git",
			Description: "Bunsen keeps the operating system of a cluster's nodes in git, as Butane documents.\n" +
				"Check a repository before the merge, follow its rollout to the nodes, and find out\n" +
				"why a node waits.\n",
		},
	}
	for _, a := range archives {
		m.Spec.Platforms = append(m.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": a.Platform.OS, "arch": a.Platform.Arch}},
			URI:      o.url(c, a.Name), SHA256: fmt.Sprintf("%x", sha256.Sum256(a.Content)),
			Files: []krewFile{{a.Dir + "/" + a.Program, "."}, {a.Dir + "/LICENSE", "."}, {a.Dir + "/notices.txt", "."}},
			Bin:   a.Program,
		})
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing the manifest for krew: %w", err)
	}
	return text, nil
}

// formula is the template of a formula of Homebrew.
var formula = template.Must(template.New("formula").Parse(`class Bunsen < Formula
  desc "Manage the operating system of a cluster's nodes from git"
  homepage "{{.Homepage}}"
  version "{{.Version}}"
  license "Apache-2.0"
{{range .Systems}}
  on_{{.Name}} do{{range .Archives}}
    on_{{.CPU}} do
      url "{{.URL}}"
      sha256 "{{.SHA256}}"
    end{{end}}
  end
{{end}}
  def install
    bin.install "bunsen"
    bin.install_symlink "bunsen" => "kubectl-bunsen"
    bash_completion.install "completions/bunsen.bash" => "bunsen"
    fish_completion.install "completions/bunsen.fish"
    zsh_completion.install "completions/_bunsen"
    man1.install Dir["man/*.1"]
    doc.install "notices.txt"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/bunsen version")
  end
end
`))

// brewFormula returns the formula for Homebrew, which runs on macOS and Linux.
func brewFormula(o buildOptions, archives []cliArchive, c commit) ([]byte, error) {
	type archive struct{ CPU, URL, SHA256 string }
	type system struct {
		Name     string
		Archives []archive
	}
	var systems []system
	for _, s := range [][2]string{{"darwin", "macos"}, {"linux", "linux"}} { // The order is that of brew style.
		one := system{Name: s[1]}
		for _, cpu := range [][2]string{{"arm64", "arm"}, {"amd64", "intel"}} {
			for _, a := range archives {
				if a.Platform.OS == s[0] && a.Platform.Arch == cpu[0] {
					sum := fmt.Sprintf("%x", sha256.Sum256(a.Content))
					one.Archives = append(one.Archives, archive{cpu[1], o.url(c, a.Name), sum})
				}
			}
		}
		if len(one.Archives) > 0 {
			systems = append(systems, one)
		}
	}
	var out bytes.Buffer
	if err := formula.Execute(&out, map[string]any{
		"Homepage": homepage, "Version": strings.TrimPrefix(c.Version, "v"), "Systems": systems,
	}); err != nil {
		return nil, fmt.Errorf("writing the formula for Homebrew: %w", err)
	}
	return out.Bytes(), nil
}
