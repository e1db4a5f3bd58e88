package mcs

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/vincent-petithory/dataurl"
	"sigs.k8s.io/yaml"
)

const machineToken = "abcdef.0123456789abcdef"

func TestTheBootstrapKubeconfigHasTheTokenThatIsPutIn(t *testing.T) {
	in := Input{
		Rendered: rendered(`{"ignition":{"version":"3.5.0"}}`),
		Extra:    Extra{Join: &Join{Server: "https://api.example:6443", CA: []byte("pem")}},
	}
	// YAML reads the second as a number where it is not quoted.
	for _, token := range []string{machineToken, "012345.0123456789012345"} {
		for _, v := range Versions()[1:] {
			body, err := Compose(in, v)
			if err != nil {
				t.Fatal(err)
			}
			if len(whole(body, token)) != body.Len() {
				t.Errorf("%s: %d bytes, and the body says %d", v, len(whole(body, token)), body.Len())
			}
			files := decode(t, whole(body, token)).Storage.Files
			f := files[len(files)-2]
			if f.Path != KubeconfigPath || *f.Mode != 0o600 || !*f.Overwrite {
				t.Errorf("%s: last but one is %s with mode %o", v, f.Path, *f.Mode)
			}
			var got struct {
				CurrentContext string `json:"current-context"`
				Clusters       []struct {
					Name    string
					Cluster struct {
						Server string
						CA     []byte `json:"certificate-authority-data"`
					}
				}
				Users []struct {
					Name string
					User struct{ Token string }
				}
				Contexts []struct {
					Name    string
					Context struct{ Cluster, User string }
				}
			}
			if err := yaml.Unmarshal(contents(t, f), &got); err != nil {
				t.Fatal(err)
			}
			cluster, user, context := got.Clusters[0], got.Users[0], got.Contexts[0]
			if cluster.Name != "local" || cluster.Cluster.Server != "https://api.example:6443" ||
				string(cluster.Cluster.CA) != "pem" ||
				user.Name != "kubelet" || user.User.Token != token || context.Context.User != user.Name ||
				context.Context.Cluster != "local" || got.CurrentContext != context.Name {
				t.Errorf("%s: %+v", v, got)
			}
		}
	}
}

// Whoever writes configs may write what the room for a token is marked with; it is another mark then.
func TestTheRoomForATokenIsTheKubeconfigsWhateverTheConfigHas(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	for n := range 40 {
		var files []string
		for i := range r.Intn(4) {
			content := strings.Repeat(placeholder(r.Intn(3)), r.Intn(3)) +
				placeholder(r.Intn(2))[:r.Intn(BootstrapTokenLength)]
			files = append(files, fmt.Sprintf(`{"path":"/etc/%s%d","contents":{"source":"data:,%s"}}`,
				placeholder(r.Intn(3)), i, dataurl.EscapeString(content)))
		}
		in := Input{Rendered: rendered(`{"ignition":{"version":"3.5.0"},"storage":{"files":[` + strings.Join(files,
			",") + `]}}`)}
		in.Extra.Join = &Join{Server: "https://" + placeholder(r.Intn(2)), CA: []byte("pem")}
		for _, v := range []Version{V2_2, V3_1, Newest} {
			if v == V2_2 {
				in.Rendered.Spec.Config.Raw = bytes.ReplaceAll(in.Rendered.Spec.Config.Raw, []byte(`,"contents"`),
					[]byte(`,"mode":420,"contents"`))
			}
			body, err := Compose(in, v)
			if err != nil {
				t.Fatal(err)
			}
			if !body.NeedsBootstrapToken() {
				t.Fatal("no room")
			}
			got := bytes.ReplaceAll(whole(body, machineToken), []byte(machineToken), nil)
			want := `%22token%22%3A%20%22%22` // the only token, and now empty
			if bytes.Count(got, []byte(want)) != 1 || len(got) != body.Len()-BootstrapTokenLength {
				t.Errorf("%d: the token is not in the kubeconfig of\n%s", n, whole(body, machineToken))
			}
			again, err := Compose(in, v)
			if err != nil || !bytes.Equal(again.Head, body.Head) || !bytes.Equal(again.Tail, body.Tail) {
				t.Errorf("%d: composed twice, it differs", n)
			}
		}
	}
}

func TestABodyIsTheSameWhereverItsConfigCameFrom(t *testing.T) {
	here, there := rendered(`{"ignition":{"version":"3.5.0"}}`), rendered(`{"ignition":{"version":"3.5.0"}}`)
	there.Annotations, there.Labels = map[string]string{"bunsen.dev/revision": "main@sha1:0123"},
		map[string]string{"a": "b"}
	there.UID, there.ResourceVersion, there.Generation = "1", "2", 3
	a, err := Compose(Input{Pool: "worker", Rendered: here}, Newest)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Compose(Input{Pool: "worker", Rendered: there}, Newest)
	if err != nil || !bytes.Equal(a.Head, b.Head) {
		t.Errorf("%v\n%s\n%s", err, a.Head, b.Head)
	}
}
