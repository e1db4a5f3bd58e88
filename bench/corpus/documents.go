package corpus

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Documents describes documents, each with files of random text and a unit.
type Documents struct {
	// Files is how many files each document has; 0 means 3 to 5.
	Files int
	// Low and High limit the size of a file in bytes.
	Low, High int
}

// Large has files with the size of typical configuration files, 1–4 KiB. A cluster can store about a hundred such
// documents in one pool.
var Large = Documents{Low: 1 << 10, High: 4 << 10}

// Small has files so small that one pool of a cluster can store a thousand documents.
var Small = Documents{Low: 50, High: 100}

// file is one file of a document.
type file struct{ path, text string }

// files returns the files of a document. Each generation has another first file.
func (d Documents) files(i, generation int) (out []file) {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	n := d.Files
	if n == 0 {
		n = 3 + r.IntN(3)
	}
	for f := range n {
		text := r
		if f == 0 {
			text = rand.New(rand.NewPCG(uint64(i), uint64(generation)+2))
		}
		var b strings.Builder
		for left := d.Low + r.IntN(d.High-d.Low+1); left > 0; left -= 64 {
			b.WriteString(line(text, min(left, 64)-1) + "\n")
		}
		out = append(out, file{fmt.Sprintf("/etc/bench/%04d/%d.conf", i, f), b.String()})
	}
	return out
}

// line returns random text that needs no YAML quoting.
func line(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	out := make([]byte, max(n, 1))
	for i := range out {
		out[i] = letters[r.IntN(len(letters))]
	}
	return string(out)
}

const unit = "[Service]\nExecStart=/usr/bin/true %d\n[Install]\nWantedBy=multi-user.target\n"

// Butane returns the text of a document.
func (d Documents) Butane(i, generation int) string {
	var b strings.Builder
	b.WriteString("variant: fcos\nversion: 1.6.0\n")
	b.WriteString(d.Body(i, generation))
	return b.String()
}

// Body returns a document without its Butane header, so that other readers of YAML can use it.
func (d Documents) Body(i, generation int) string {
	var b strings.Builder
	b.WriteString("storage:\n  files:\n")
	for _, f := range d.files(i, generation) {
		fmt.Fprintf(&b, "    - path: %s\n      mode: 0644\n      contents:\n        inline: |\n%s", f.path,
			indent(f.text, 10))
	}
	fmt.Fprintf(&b, "systemd:\n  units:\n    - name: bench-%04d.service\n      enabled: true\n      contents: |\n%s", i,
		indent(fmt.Sprintf(unit, i), 8))
	return b.String()
}

func indent(text string, by int) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		b.WriteString(strings.Repeat(" ", by) + l)
	}
	return b.String()
}

// MachineConfig returns a document as an API server would return it.
func (d Documents) MachineConfig(i, generation int) *mcfgv1.MachineConfig {
	var b strings.Builder
	b.WriteString(`{"ignition":{"version":"3.5.0"},"storage":{"files":[`)
	for n, f := range d.files(i, generation) {
		if n > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"path":%q,"mode":420,"contents":{"source":"data:;base64,%s"}}`, f.path,
			base64.StdEncoding.EncodeToString([]byte(f.text)))
	}
	fmt.Fprintf(&b, `]},"systemd":{"units":[{"name":"bench-%04d.service","enabled":true,"contents":%q}]}}`, i,
		fmt.Sprintf(unit, i))
	mc := &mcfgv1.MachineConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprintf("%02d-worker-bench-%04d", 10+i%80, i),
			Labels:          map[string]string{"machineconfiguration.openshift.io/role": "worker"},
			ResourceVersion: fmt.Sprint(generation + 1),
		},
	}
	mc.UID = types.UID(mc.Name)
	mc.Spec.Config.Raw = []byte(b.String())
	return mc
}

// MachineConfigs returns the first n documents as MachineConfigs.
func (d Documents) MachineConfigs(n int) (out []*mcfgv1.MachineConfig) {
	for i := range n {
		out = append(out, d.MachineConfig(i, 0))
	}
	return out
}
