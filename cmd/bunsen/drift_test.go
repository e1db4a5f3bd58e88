package main

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // the handshake of WebSocket asks for it
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
)

// TestDriftScripts runs testdata/drift/*.txtar against a stand-in of an API server. `cluster FILE` serves the objects
// of a YAML file, and what exec/NAME holds to whoever runs the command NAME, its words joined by dashes, in a pod.
func TestDriftScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/drift", UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "cluster": serveCluster},
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", env.WorkDir+"/kubeconfig")
			return nil
		},
	})
}

func serveCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: cluster FILE")
	}
	a := apiServer{dir: ts.MkAbs("."), objects: map[string][]json.RawMessage{}}
	docs := k8syaml.NewYAMLReader(bufio.NewReader(strings.NewReader(ts.ReadFile(args[0]))))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		ts.Check(err)
		raw, err := k8syaml.ToJSON(doc)
		ts.Check(err)
		var head struct{ Kind string }
		ts.Check(json.Unmarshal(raw, &head))
		plural := strings.ToLower(head.Kind) + "s"
		a.objects[plural] = append(a.objects[plural], raw)
	}
	server := httptest.NewServer(a)
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(ts.MkAbs("kubeconfig"), fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u, user: {}}]
`, server.URL), 0o600))
}

// apiServer answers as much as these verbs ask.
type apiServer struct {
	dir     string
	objects map[string][]json.RawMessage
}

// discovery is what a client asks before it asks for objects.
var discovery = map[string]string{
	"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"machineconfiguration.openshift.io","versions":[{"groupVersion":"machineconfiguration.openshift.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"machineconfiguration.openshift.io/v1","version":"v1"}}]}`,
	"/api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[
		{"name":"nodes","kind":"Node","verbs":["get","list"]},{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get","list"]}]}`,
	"/apis/machineconfiguration.openshift.io/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"machineconfiguration.openshift.io/v1","resources":[
		{"name":"machineconfigs","kind":"MachineConfig","verbs":["get","list"]},
		{"name":"machineconfigpools","kind":"MachineConfigPool","verbs":["get","list"]}]}`,
}

func (a apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if text, ok := discovery[r.URL.Path]; ok {
		fmt.Fprint(w, text)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/exec") {
		a.exec(w, r)
		return
	}
	name := filepath.Base(r.URL.Path)
	if all, isList := a.objects[name]; isList || name == "pods" || name == "nodes" || name == "machineconfigpools" {
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"items":[%s]}`, map[string]string{
			"nodes": "NodeList",
			"pods":  "PodList", "machineconfigs": "MachineConfigList",
			"machineconfigpools": "MachineConfigPoolList",
		}[name],
			strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(r.URL.Path), "/"), "apis/"), "api/"),
			bytes.Join(raws(all), []byte(",")))
		return
	}
	for _, raw := range a.objects[filepath.Base(filepath.Dir(r.URL.Path))] {
		var head struct{ Metadata struct{ Name string } }
		if json.Unmarshal(raw, &head) == nil && head.Metadata.Name == name {
			w.Write(raw) //nolint:errcheck // a client that goes away
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
}

func raws(all []json.RawMessage) (out [][]byte) {
	for _, raw := range all {
		out = append(out, raw)
	}
	return out
}

// exec speaks the server's side of v5.channel.k8s.io: frames whose first byte is 1 for output, 2 for errors, 3 for the
// status.
func (a apiServer) exec(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") +
		"258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	frame := func(channel byte, data []byte) {
		head := []byte{0x82, 126, 0, 0, channel}
		binary.BigEndian.PutUint16(head[2:], uint16(len(data)+1))
		conn.Write(append(head, data...)) //nolint:errcheck // a client that goes away
	}
	command := strings.ReplaceAll(strings.Join(r.URL.Query()["command"], "-"), "/", "_")
	text, err := os.ReadFile(filepath.Join(a.dir, "exec", command))
	if filepath.Base(filepath.Dir(r.URL.Path)) == "decoy" || r.URL.Query().Get("container") != "machine-config-daemon" {
		text, err = nil, errors.New("anybody's container was asked")
	}
	status := `{"kind":"Status","status":"Success"}`
	if err != nil {
		frame(2, []byte("machine-config-daemon: there is no "+command))
		status = `{"kind":"Status","status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"1"}]}}`
	} else {
		frame(1, text)
	}
	frame(3, []byte(status))
	conn.Write([]byte{0x88, 2, 0x03, 0xe8}) //nolint:errcheck // goodbye
	io.Copy(io.Discard, conn)               //nolint:errcheck // until the client goes
}
