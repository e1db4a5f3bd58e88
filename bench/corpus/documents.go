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

// Documents is a kind of documents: each has files of random text and a unit.
type Documents struct {
	// Files is how many each has; 0 is 3 to 5.
	Files int
	// Low and High bound the size of a file in bytes.
	Low, High int
}

// Large is what configuration files look like: 1–4 KiB each. A cluster stores about a hundred such documents in one pool.
var Large = Documents{Low: 1 << 10, High: 4 << 10}

// Small fits a thousand documents into one pool of a cluster.
var Small = Documents{Low: 50, High: 100}

// file is one file of a document.
type file struct{ path, text string }

// files are those of a document. Another generation has another first file.
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

// line is random text that needs no YAML quoting.
func line(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	out := make([]byte, max(n, 1))
	for i := range out {
		out[i] = letters[r.IntN(len(letters))]
	}
	return string(out)
}

const unit = "[Service]\nExecStart=/usr/bin/true %d\n[Install]\nWantedBy=multi-user.target\n"

// Butane is the text of a document.
func (d Documents) Butane(i, generation int) string {
	var b strings.Builder
	b.WriteString("variant: fcos\nversion: 1.6.0\n")
	b.WriteString(d.Body(i, generation))
	return b.String()
}

// Body is a document without the lines that make it Butane, so that anything else that reads YAML can have it too.
func (d Documents) Body(i, generation int) string {
	var b strings.Builder
	b.WriteString("storage:\n  files:\n")
	for _, f := range d.files(i, generation) {
		fmt.Fprintf(&b, "    - path: %s\n      mode: 0644\n      contents:\n        inline: |\n%s", f.path, indent(f.text, 10))
	}
	fmt.Fprintf(&b, "systemd:\n  units:\n    - name: bench-%04d.service\n      enabled: true\n      contents: |\n%s", i, indent(fmt.Sprintf(unit, i), 8))
	return b.String()
}

func indent(text string, by int) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		b.WriteString(strings.Repeat(" ", by) + l)
	}
	return b.String()
}

// MachineConfig is a document as a cluster has it, stamped by its API server.
func (d Documents) MachineConfig(i, generation int) *mcfgv1.MachineConfig {
	var b strings.Builder
	b.WriteString(`{"ignition":{"version":"3.5.0"},"storage":{"files":[`)
	for n, f := range d.files(i, generation) {
		if n > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"path":%q,"mode":420,"contents":{"source":"data:;base64,%s"}}`, f.path, base64.StdEncoding.EncodeToString([]byte(f.text)))
	}
	fmt.Fprintf(&b, `]},"systemd":{"units":[{"name":"bench-%04d.service","enabled":true,"contents":%q}]}}`, i, fmt.Sprintf(unit, i))
	mc := &mcfgv1.MachineConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%02d-worker-bench-%04d", 10+i%80, i), Labels: map[string]string{"machineconfiguration.openshift.io/role": "worker"},
			ResourceVersion: fmt.Sprint(generation + 1),
		},
	}
	mc.UID = types.UID(mc.Name)
	mc.Spec.Config.Raw = []byte(b.String())
	return mc
}

// MachineConfigs are the first n.
func (d Documents) MachineConfigs(n int) (out []*mcfgv1.MachineConfig) {
	for i := range n {
		out = append(out, d.MachineConfig(i, 0))
	}
	return out
}
