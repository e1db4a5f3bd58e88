package mcs

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

func marked(config, marks string) *mcfgv1.MachineConfig {
	mc := rendered(config)
	mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: marks}
	return mc
}

func TestASecretThatAMachineNeedsFirstIsNotServedWithoutIt(t *testing.T) {
	for _, c := range []struct{ because, config, want string }{
		{"a volume is opened before the network is up for anybody else", `"storage":{"luks":[{"name":"root","device":"/dev/a","keyFile":{"source":"data:,x"}},{"name":"b","device":"/dev/b","clevis":{"tpm2":true}}]}`, "storage.luks[root].keyFile"},
		{"who cannot join cannot be completed", `"storage":{"files":[{"path":"/etc/kubernetes/kubeconfig","contents":{"source":"data:,x"}}]}`, "storage.files[/etc/kubernetes/kubeconfig]"},
		{"groups are not the daemon's", `"passwd":{"groups":[{"name":"wheel","passwordHash":"$6$a$b"}]}`, "passwd.groups[wheel].passwordHash"},
	} {
		mc := marked(`{"ignition":{"version":"3.5.0"},`+c.config+`}`, "/etc/kubernetes/")
		_, err := Compose(Input{Pool: "worker", Rendered: mc, Withhold: true}, Newest)
		var bound *FirstBootSecretsError
		if !errors.As(err, &bound) || strings.Join(bound.Fields, ", ") != c.want {
			t.Errorf("%s: got %v, want %s", c.because, err, c.want)
		}
		if _, err := Compose(Input{Pool: "worker", Rendered: mc}, Newest); err != nil {
			t.Errorf("%s: a token of the node gets %v", c.because, err)
		}
	}
}

// A new machine gets whatever no document declares as secret. A name or a word decides nothing.
func TestNothingIsWithheldByAGuess(t *testing.T) {
	files := map[string]string{
		"/etc/nsswitch.conf": "passwd: files usrfiles\n", "/etc/sudoers.d/core-passwd": "core ALL=(ALL) PASSWD: ALL\n",
		"/etc/ssh/sshd_config.d/10-c.conf": "PubkeyAcceptedAlgorithms sk-ssh-ed25519-cert-v01@openssh.com\n",
		"/etc/pki/tls/host.key":            "x", "/etc/app.conf": "password=hunter2\n",
		"/etc/NetworkManager/system-connections/a.nmconnection": "[wifi-security]\npsk=h7Gk2jd8\n",
	}
	c := ign.Config{Ignition: ign.Ignition{Version: "3.5.0"}}
	for path, text := range files {
		f := ign.File{Node: ign.Node{Path: path}}
		source := dataurl.EncodeBytes([]byte(text))
		f.Contents.Source = &source
		c.Storage.Files = append(c.Storage.Files, f)
	}
	text := "[Service]\nEnvironment=DB_PASSWORD=hunter2\n"
	c.Systemd.Units = []ign.Unit{{Name: "a.service", Contents: &text}}
	raw, err := machineconfig.Config{HasIgnition: true, Ignition: c}.IgnitionJSON()
	if err != nil {
		t.Fatal(err)
	}
	mc := rendered(string(raw))
	mc.Spec.KernelArguments = []string{"app.token=h7Gk2jd82kdj"}
	body, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
	if err != nil || len(body.Withheld) > 0 {
		t.Fatalf("withheld %q, %v", body.Withheld, err)
	}
	for _, f := range decode(t, body.Head).Storage.Files {
		delete(files, f.Path)
	}
	if len(files) > 0 {
		t.Errorf("not served: %v", files)
	}
}

func TestWhatTheServerReplacesIsNotWithheld(t *testing.T) {
	mc := rendered(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubeconfig","contents":{"source":"data:,users:%0A-%20user:%20%7Btoken:%20h7Gk2jd82kdj%7D"}},{"path":"/etc/ca.key","contents":{"source":"data:,x"}}]}}`)
	mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: "/etc/"}
	body, err := Compose(Input{Rendered: mc, Withhold: true, Extra: Extra{
		Files: []File{{Path: "/etc/ca.key", Mode: 0o644, Contents: []byte("pem")}},
		Join:  &Join{Server: "https://api:6443"},
	}}, Newest)
	if err != nil || len(body.Withheld) > 0 {
		t.Errorf("withheld %q, %v", body.Withheld, err)
	}
}

func TestASecretInAConfigWithinTheConfigIsWithheldToo(t *testing.T) {
	mc := rendered(
		`{"ignition":{"version":"3.5.0","config":{"merge":[{"source":"data:;base64,eyJpZ25pdGlvbiI6eyJ2ZXJzaW9uIjoiMy4yLjAifSwic3RvcmFnZSI6eyJmaWxlcyI6W3sicGF0aCI6Ii9ldGMvYSIsImNvbnRlbnRzIjp7InNvdXJjZSI6ImRhdGE6LHBhc3N3b3JkPXNUcjBuZ1NlY3JldCJ9fV19fQ=="}]}}}`)
	mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: "/etc/a"}
	body, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
	if err != nil {
		t.Fatal(err)
	}
	if len(body.Withheld) != 1 || body.Withheld[0] != "file /etc/a" || strings.Contains(string(body.Head), "merge") {
		t.Errorf("withheld %q of\n%s", body.Withheld, body.Head)
	}
}

func TestWhatIsWithheldIsLeftOutAndNothingElse(t *testing.T) {
	secrets := []string{
		`{"path":"/etc/s1.key","contents":{"source":"data:,x"}}`,
		`{"path":"/etc/s2","append":[{"source":"data:,password=sTr0ngSecret"}]}`,
	}
	const marks = "/etc/s1.key,/etc/s2"
	r := rand.New(rand.NewSource(5))
	withheld := 0
	for range 60 {
		mc := random(r)
		mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: marks}
		for _, s := range secrets {
			if r.Intn(2) == 0 {
				continue
			}
			before := string(mc.Spec.Config.Raw)
			if mc.Spec.Config.Raw = []byte(strings.Replace(before, `"files":[`, `"files":[`+s+`,`,
				1)); strings.Contains(before, `"files":[]`) {
				mc.Spec.Config.Raw = []byte(strings.Replace(before, `"files":[]`, `"files":[`+s+`]`, 1))
			}
		}
		whole, err := Compose(Input{Rendered: mc}, Newest)
		if err != nil {
			t.Fatalf("%v\n%s", err, mc.Spec.Config.Raw)
		}
		less, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
		if err != nil {
			t.Fatal(err)
		}
		withheld += len(less.Withheld)
		full, left := decode(t, whole.Head), decode(t, less.Head)
		full.Storage.Files = without(full.Storage.Files, func(f ign.File) bool {
			return slices.Contains(less.Withheld, "file "+f.Path)
		})
		last := func(files []ign.File) []byte { return contents(t, files[len(files)-2]) }
		marked := strings.Contains(string(last(left.Storage.Files)), v1alpha1.WithheldAnnotation)
		if marked != (len(less.Withheld) > 0) {
			t.Errorf("withheld %q, and the node's annotations are %s", less.Withheld, last(left.Storage.Files))
		}
		full.Storage.Files[len(full.Storage.Files)-2] = left.Storage.Files[len(left.Storage.Files)-2]
		if diff := cmp.Diff(full, left); diff != "" {
			t.Errorf("-whole less what is withheld +served\n%s", diff)
		}
		again, bare, bound := withhold(machineconfig.Config{Ignition: left}, secretmask.Paths{"/etc/s1.key", "/etc/s2"})
		if len(bare)+len(bound) > 0 || len(again.Ignition.Storage.Files) != len(left.Storage.Files) {
			t.Errorf("there is still secret in it: %q %q", bare, bound)
		}
	}
	if withheld < 20 {
		t.Errorf("only %d secrets were withheld: the test shows nothing", withheld)
	}
}

// A body without secrets is valid, has nothing that the owner marks, and withholding again takes nothing out of it.
func FuzzWithhold(f *testing.F) {
	for config, marks := range map[string]string{
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a.key","contents":{"source":"data:,x"}}],"links":[{"path":"/etc/l","target":"../etc/a.key","hard":true}]}}`:                 "/etc/a.key",
		`{"ignition":{"version":"3.2.0"},"passwd":{"users":[{"name":"u","passwordHash":"x"}]},"systemd":{"units":[{"name":"a.service","contents":"x","dropins":[{"name":"a.conf","contents":"y"}]}]}}`: "a.service",
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/app/b","contents":{"source":"https://example.org/c"}},{"path":"/etc/app/c","append":[{"source":"data:,x"}]}]}}`:             "/etc/app/",
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:;base64,H4sIAAAAAAAA/ypILC4uzy9KsU0uTk0sMgIEAAD//8UyHyUQAAAA","compression":"gzip"}}]}}`:      "/etc/?",
		`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"app@.service","enabled":true},{"name":"b.service","dropins":[{"name":"a.conf","contents":"[Unit]\n"}]}]}}`:                       "b.service app*.service",
	} {
		f.Add([]byte(config), marks)
	}
	f.Fuzz(func(t *testing.T, config []byte, list string) {
		mc := marked(string(config), list)
		if _, err := Compose(Input{Rendered: mc}, Newest); err != nil {
			return
		}
		less, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
		var bound *FirstBootSecretsError
		if errors.As(err, &bound) {
			return
		}
		if err != nil {
			t.Fatalf("%s is served with its secrets, and without is wrong: %v", config, err)
		}
		marks := slices.DeleteFunc(secretPathsOf(mc), func(m string) bool { // of files that the server adds
			return secretmask.Paths{m}.Match(NodeAnnotationsPath) || secretmask.Paths{m}.Match(EncapsulatedPath)
		})
		left := decode(t, less.Head)
		if _, bare, held := withhold(machineconfig.Config{Ignition: left}, marks); len(bare)+len(held) > 0 {
			t.Errorf("%s: there is still secret in it: %q %q", config, bare, held)
		}
		for _, file := range left.Storage.Files {
			for _, r := range append(file.Append, file.Contents) {
				if data, err := machineconfig.Contents(r); marks.Match(file.Path) && (err != nil || len(data) > 0) {
					t.Errorf("%s: %s is served", config, file.Path)
				}
			}
		}
		for _, unit := range left.Systemd.Units {
			if marks.Match(unit.Name) && (unit.Contents != nil && *unit.Contents != "" || len(unit.Dropins) > 0) {
				t.Errorf("%s: %s is served", config, unit.Name)
			}
		}
	})
}

// A Typhoon worker gets the configuration of its kubelet, and does not get what its repository marks as secret.
func TestAnOrdinaryKubeletConfigIsServedAndAMarkedFileIsNot(t *testing.T) {
	const kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"authentication:\n  webhook:\n    enabled: true\nauthorization:\n  mode: Webhook\n"
	mc := rendered(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubelet.yaml","contents":{"source":"data:,` + dataurl.EscapeString(kubelet) + `"}},{"path":"/etc/kubernetes/kubelet.conf","contents":{"source":"data:,` + dataurl.EscapeString(kubelet) + `"}},{"path":"/etc/radius.conf","contents":{"source":"data:,plain"}}]},"systemd":{"units":[{"name":"vault.service","contents":"[Unit]"}]}}`)
	mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: "/etc/*.conf,vault.service"}
	body, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(body.Withheld, ", "); got != "file /etc/radius.conf, unit vault.service" {
		t.Errorf("withheld %q", got)
	}
}
