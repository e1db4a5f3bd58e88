package cluster

import (
	"errors"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcs"
)

// withFile is a rendered config with one file of the content store.
func withFile(name, hash string) *mcfgv1.MachineConfig {
	mc := rendered(name, "a")
	mc.Spec.Config.Raw = []byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/opt/a","contents":{"source":"` +
			machineconfig.StoredSource(hash) + `","verification":{"hash":"` + hash + `"}}}]}}`)
	return mc
}

// nodeContents asks for files as nodes of two pools do.
func nodeContents(t *testing.T, p *plane) {
	file := func(digit string) string { return "sha512-" + strings.Repeat(digit, 128) }
	pools := []client.Object{selecting("blue", "rendered-blue-2"), selecting("red", "rendered-red-1")}
	p.create(t, pools...)
	defer func() {
		for _, pool := range pools {
			if err := p.admin.Delete(t.Context(), pool); err != nil {
				t.Error(err)
			}
		}
	}()
	blue := inRoles("blue-0", "blue")
	blue.Annotations = map[string]string{
		"machineconfiguration.openshift.io/currentConfig": "rendered-blue-1",
		"machineconfiguration.openshift.io/desiredConfig": "rendered-red-1",
	}
	p.create(t, withFile("rendered-blue-0", file("0")), withFile("rendered-blue-1", file("1")),
		withFile("rendered-blue-2", file("2")), withFile("rendered-red-1", file("3")),
		blue, inRoles("red-0", "red"))
	var way line
	config := rest.CopyConfig(p.server)
	config.Dial = way.dial
	c, log, _ := run(t, config, Options{})
	log.await(t, "ready")
	reads := func(because, node, digit, want string) {
		t.Helper()
		err := c.NodeContent(t.Context(), node, file(digit))
		switch {
		case want == "" && err != nil, want == "away" && !errors.Is(err, mcs.ErrAPIUnavailable):
			t.Errorf("%s: %v", because, err)
		case want != "" && want != "away" && (!errors.As(err, new(*mcs.NotForNodeError)) ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file(digit))):
			t.Errorf("%s: %v", because, err)
		}
	}
	reads("a file of the target of its pool", "blue-0", "2", "")
	reads("a file of the config that it runs", "blue-0", "1", "")
	reads("a file of an earlier config of its pool", "blue-0", "0", "no config that it may run names the file")
	reads("a file of another pool, whose config it claims to want", "blue-0", "3",
		"no config that it may run names the file")
	reads("a file that no config names", "blue-0", "4", "no config that it may run names the file")
	reads("a node of the other pool", "red-0", "3", "")
	reads("a node that is not there", "nobody", "3", "there is no Node of that name")
	way.set(true)
	reads("while the API server is away, a file of the target", "blue-0", "2", "")
	reads("while the API server is away, a file that is not known", "blue-0", "1", "away")
}
