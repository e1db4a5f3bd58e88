package mcs

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/google/go-cmp/cmp"
	"github.com/vincent-petithory/dataurl"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func TestASecretThatAMachineNeedsFirstIsNotServedWithoutIt(t *testing.T) {
	for _, c := range []struct{ because, config, want string }{
		{"a volume is opened before the network is up for anybody else", `"storage":{"luks":[{"name":"root","device":"/dev/a","keyFile":{"source":"data:,x"}},{"name":"b","device":"/dev/b","clevis":{"tpm2":true}}]}`, "storage.luks[root].keyFile"},
		{"a pin of one's own", `"storage":{"luks":[{"name":"root","device":"/dev/a","clevis":{"custom":{"pin":"sss","config":"{}"}}}]}`, "storage.luks[root].clevis.custom.config"},
		{"who cannot join cannot be completed", `"storage":{"files":[{"path":"/etc/kubernetes/kubeconfig","contents":{"source":"data:,users:%0A-%20user:%20%7Btoken:%20h7Gk2jd82kdj%7D"}}]}`, "storage.files[/etc/kubernetes/kubeconfig]"},
		{"groups are not the daemon's", `"passwd":{"groups":[{"name":"wheel","passwordHash":"$6$a$b"}]}`, "passwd.groups[wheel].passwordHash"},
		{
			"whom Ignition believes, and by what way it goes",
			`"ignition":{"version":"3.5.0","security":{"tls":{"certificateAuthorities":[{"source":"https://me:secret@a/ca"}]}},"proxy":{"httpsProxy":"http://me:secret@proxy"}}`,
			"ignition.security.tls.certificateAuthorities[0], ignition.proxy.httpsProxy",
		},
		{"the options of a mount", `"storage":{"filesystems":[{"device":"/dev/sdb","format":"xfs","path":"/var","mountOptions":["ro","password=hunter22"]}]}`, "storage.filesystems[/var].mountOptions[1]"},
		{"the target of a link", `"storage":{"links":[{"path":"/l","target":"https://me:hunter22@a.example"}]}`, "storage.links[/l].target"},
		{"what accounts say of themselves", `"passwd":{"users":[{"name":"core","gecos":"password: hunter22"}]}`, "passwd.users[core].gecos"},
	} {
		config := "{" + c.config + "}"
		if !strings.Contains(config, `"ignition"`) {
			config = `{"ignition":{"version":"3.5.0"},` + c.config + `}`
		}
		mc := rendered(config)
		_, err := Compose(Input{Pool: "worker", Rendered: mc, Withhold: true}, Newest)
		var bound *FirstBootSecretsError
		if !errors.As(err, &bound) || strings.Join(bound.Fields, ", ") != c.want {
			t.Errorf("%s: got %v, want %s", c.because, err, c.want)
		}
		if _, err := Compose(Input{Pool: "worker", Rendered: mc}, Newest); err != nil {
			t.Errorf("%s: a token of the node gets %v", c.because, err)
		}
	}
	mc := rendered(`{"ignition":{"version":"3.5.0"},"kernelArguments":{"shouldExist":["a","iscsi_password=hunter22"]}}`)
	mc.Spec.KernelArguments = []string{"quiet", "x.token=h7Gk2jd82kdj"}
	_, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
	for _, want := range []string{
		"kernelArguments.shouldExist[1]", "spec.kernelArguments[1]",
		"bunsen token create --node",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kernel arguments: got %v, want %s in it", err, want)
		}
	}
	if err != nil && (strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), "h7Gk2jd82kdj")) {
		t.Errorf("the error has the secrets in it: %v", err)
	}
}

// All connections of NetworkManager are held for secret where something is printed. A bond without its profile would
// never come up, and its machine never be completed.
func TestAMachineGetsTheNetworkThatItNeedsToBeCompleted(t *testing.T) {
	for _, c := range []struct{ because, content, withheld string }{
		{"a bond", "[connection]\nid=bond0\n[ipv4]\nmethod=manual\naddress1=192.0.2.7/24", ""},
		{"a wireless network", "[wifi-security]\npsk=h7Gk2jd8", "file /etc/NetworkManager/system-connections/a.nmconnection"},
		{"an old wireless network", "[wifi-security]\nwep-key0=abcde", "file /etc/NetworkManager/system-connections/a.nmconnection"},
		{"a modem", "[gsm]\npin=1234", "file /etc/NetworkManager/system-connections/a.nmconnection"},
		{"a password as bytes", "[802-1x]\nidentity=me\npassword-raw=104;117;115;104;", "file /etc/NetworkManager/system-connections/a.nmconnection"},
		{"a wire that is encrypted", "[macsec]\nmka-cak=00112233445566778899aabbccddeeff", "file /etc/NetworkManager/system-connections/a.nmconnection"},
		{"a tunnel", "[vpn]\ngateway=gw\n[vpn-secrets]\nform:main:code=hush", "file /etc/NetworkManager/system-connections/a.nmconnection"},
	} {
		mc := rendered(
			`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/NetworkManager/system-connections/a.nmconnection","contents":{"source":"data:,` + dataurl.EscapeString(c.content) + `"}}]}}`)
		body, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
		if got := strings.Join(body.Withheld, ", "); err != nil || got != c.withheld {
			t.Errorf("%s: withheld %q, %v", c.because, got, err)
		}
	}
}

func TestWhatTheServerReplacesIsNotWithheld(t *testing.T) {
	mc := rendered(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubeconfig","contents":{"source":"data:,users:%0A-%20user:%20%7Btoken:%20h7Gk2jd82kdj%7D"}},{"path":"/etc/ca.key","contents":{"source":"data:,x"}}]}}`)
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
	body, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
	if err != nil {
		t.Fatal(err)
	}
	if len(body.Withheld) != 1 || body.Withheld[0] != "file /etc/a" || strings.Contains(string(body.Head), "merge") {
		t.Errorf("withheld %q of\n%s", body.Withheld, body.Head)
	}
}

func TestWhatIsWithheldIsLeftOutAndNothingElse(t *testing.T) {
	secret := []string{
		`{"path":"/etc/s1.key","contents":{"source":"data:,x"}}`,
		`{"path":"/etc/s2","append":[{"source":"data:,password=sTr0ngSecret"}]}`,
	}
	r := rand.New(rand.NewSource(5))
	withheld := 0
	for range 60 {
		mc := random(r)
		for _, s := range secret {
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
		again, bare, bound := withhold(machineconfig.Config{Ignition: left}, nil)
		if len(bare)+len(bound) > 0 || len(again.Ignition.Storage.Files) != len(left.Storage.Files) {
			t.Errorf("there is still secret in it: %q %q", bare, bound)
		}
	}
	if withheld < 20 {
		t.Errorf("only %d secrets were withheld: the test shows nothing", withheld)
	}
}

func FuzzWithhold(f *testing.F) {
	f.Add([]byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a.key","contents":{"source":"data:,x"}}],"links":[{"path":"/etc/l","target":"../etc/a.key","hard":true}]}}`))
	f.Add([]byte(
		`{"ignition":{"version":"3.2.0"},"passwd":{"users":[{"name":"u","passwordHash":"x"}]},"systemd":{"units":[{"name":"a.service","contents":"password=sTr0ng","dropins":[{"name":"a.conf","contents":"token=abc"}]}]}}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		mc := rendered(string(config))
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
		_, bare, held := withhold(machineconfig.Config{Ignition: decode(t, less.Head)}, nil)
		if len(bare)+len(held) > 0 {
			t.Errorf("%s: there is still secret in it: %q %q", config, bare, held)
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
