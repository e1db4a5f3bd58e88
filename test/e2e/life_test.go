package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lab/ostree"
)

// TestLives tells stories of real machines: systemd of Debian in a container of systemd-nspawn, whose first boot was
// provisioned by the real Ignition from our server, and which our daemon serves as it does a machine.
func TestLives(t *testing.T) {
	lab.Need(t)
	p := findParts(t)
	p.lab = t.TempDir()
	if err := buildLab(p); err != nil {
		t.Fatal(err)
	}
	// The lives come before all stories: they take longest and mostly wait, while the stories keep the cores busy.
	t.Parallel()
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, do := range storyCommands {
		commands[name] = command(do)
	}
	for name, do := range map[string]func(*story, *testscript.TestScript, []string) error{
		"born": (*story).born, "inside": (*story).inside, "boots": (*story).boots, "powercut": (*story).powercut,
		"osimage": (*story).osimage, "content": (*story).serveContent, "artifact": (*story).artifact,
		"near": (*story).near,
	} {
		commands[name] = command(do)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/life", RequireUniqueNames: true, Cmds: commands,
		Setup: func(env *testscript.Env) error { return begin(env, p) },
	})
}

// buildLab builds what the machines' image has besides our daemon, and the real Ignition.
func buildLab(p parts) error {
	for _, build := range []struct {
		dir  string
		env  string
		args []string
	}{
		{p.root, "CGO_ENABLED=0", []string{"-o", filepath.Join(p.lab, "lab-kubelet"), "./test/lab/kubelet"}},
		// Ignition needs libblkid.
		{filepath.Join(p.root, "test", "ignition"), "CGO_ENABLED=1", []string{
			"-o", filepath.Join(p.lab, "ignition"), "-ldflags",
			"-X github.com/coreos/ignition/v2/internal/version.Raw=2.27.0 " +
				"-X github.com/coreos/ignition/v2/internal/distro.selinuxRelabel=false",
			"github.com/coreos/ignition/v2/internal",
		}},
	} {
		cmd := exec.Command("go", append([]string{"-C", build.dir, "build"}, build.args...)...)
		cmd.Env = append(os.Environ(), build.env)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", build.args[1], err, out)
		}
	}
	return nil
}

// born NODE POOL [ostree|server [anyone|without PATH]] makes a machine, of packages or of an OSTree image, lets
// Ignition fetch its config from our server as the first boot of a machine does, and boots it. Its image has the daemon
// and the stand-in of a kubelet, both with the Node's identity, which a real machine gets by a bootstrap token. With
// `server`, its daemon reaches machine-config-server too, at $NEAR. With `anyone`, its token is one of the pool instead
// of one of the machine. With `without`, the image has no daemon: the pool's config brings it, at PATH.
func (s *story) born(ts *testscript.TestScript, args []string) error {
	asked, daemon := args, imageDaemon
	if len(args) == 5 && args[3] == "without" {
		daemon, args = args[4], args[:3]
	}
	if len(args) < 2 || !slices.Contains([]string{"", "ostree", "server", "server anyone"},
		strings.Join(args[2:], " ")) {
		return usage("born NODE POOL [ostree|server [anyone|without PATH]]")
	}
	t, ok := ts.Value(testKey{}).(testing.TB)
	if !ok {
		return fmt.Errorf("born needs a test that can end machines, not %T", ts.Value(testKey{}))
	}
	if err := s.connect(t); err != nil {
		return err
	}
	node, pool, server := args[0], args[1], ts.Getenv("MCS")
	isNear := slices.Contains(args[2:], "server")
	if isNear {
		server = "https://" + s.network.Forward(0, strings.TrimPrefix(server, "https://"))
		ts.Setenv("NEAR", server)
	}
	pass := []string{"--uses", "2"}
	if !slices.Contains(args, "anyone") {
		pass = append(pass, "--node", node)
	}
	pointer, err := s.pointer(ts, node, pool, server, pass)
	if err != nil {
		return err
	}
	isWithout := slices.Contains(asked, "without")
	first := func(root string) error {
		if isWithout {
			if err := withoutDaemon(root); err != nil {
				return err
			}
		}
		return s.ignite(root, pointer, isNear)
	}
	if slices.Contains(args[2:], "ostree") {
		// A path unit starts what writes a staged deployment at the shutdown, sooner or later. Here nothing but the
		// daemon does.
		unaided := func(root string) error {
			units := filepath.Join(root, "etc/systemd/system")
			return errors.Join(os.MkdirAll(units, 0o755),
				os.Symlink("/dev/null", filepath.Join(units, "ostree-finalize-staged.path")), first(root))
		}
		h := ostree.Start(t, ostree.Options{Name: node, Network: s.network, Image: s.image, Prepare: unaided})
		s.hosts[node], s.images[node] = h.Host, h
		return nil
	}
	s.hosts[node] = lab.Launch(t, lab.Options{Name: node, Network: s.network, Prepare: func(root string) error {
		if err := s.image(root); err != nil {
			return err
		}
		if isNear {
			if err := reach(server, root, daemon); err != nil {
				return err
			}
		}
		return first(root)
	}})
	return nil
}

// connect makes the network of a story's machines, where they reach the API server.
func (s *story) connect(t testing.TB) error {
	if s.network != nil {
		return nil
	}
	s.network, s.hosts, s.images = lab.NewNetwork(t), map[string]*lab.Host{}, map[string]*ostree.Host{}
	server, err := url.Parse(s.cluster.env.Config.Host)
	if err != nil {
		return fmt.Errorf("reading the API server's address: %w", err)
	}
	s.api = s.network.Forward(0, server.Host)
	return nil
}

// imageDaemon is the daemon of an image.
const imageDaemon = "/usr/local/bin/machine-config-daemon"

// withoutDaemon removes the daemon and its units from an image. The settings of this test for the daemon stay.
func withoutDaemon(root string) error {
	return errors.Join(os.Remove(filepath.Join(root, imageDaemon)),
		os.Remove(filepath.Join(root, "usr/lib/systemd/system/machine-config-daemon.service")),
		os.Remove(filepath.Join(root, "usr/lib/systemd/system/machine-config-daemon-firstboot.service")))
}

// reach lets the daemon of a machine, at a path, reach our server at a URL.
func reach(server, root, daemon string) error {
	text := "[Service]\nExecStart=\nExecStart=" + daemon + " start --health-timeout 20s --health-settle 3s " +
		"--trust-interval 5s --server " + server + "\n"
	file := filepath.Join(root, "usr/lib/systemd/system/machine-config-daemon.service.d/20-server.conf")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing how the daemon reaches the server: %w", err)
	}
	return nil
}

// pointer is the small config that a machine is started with: what `bunsen pointer` prints, and the Node's identity.
func (s *story) pointer(ts *testscript.TestScript, node, pool, server string, pass []string) (string, error) {
	who, err := s.cluster.identity(node, kubelet(node))
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(who)
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig of %s: %w", node, err)
	}
	for _, c := range config.Clusters {
		c.Server, c.TLSServerName = "https://"+s.api, "127.0.0.1"
	}
	identity, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", node, err)
	}
	token, err := s.newToken(ts, pool, pass...)
	if err != nil {
		return "", err
	}
	printed, err := s.bunsen(ts, "pointer", "--pool", pool, "--server", server, "--token", token)
	if err != nil {
		return "", err
	}
	type object = map[string]any
	var pointer object
	if err := json.Unmarshal(printed, &pointer); err != nil {
		return "", fmt.Errorf("reading what bunsen pointer prints: %w", err)
	}
	file := func(path string) object {
		return object{
			"path": path, "mode": 0o600,
			"contents": object{"source": "data:," + url.PathEscape(string(identity))},
		}
	}
	pointer["storage"] = object{"files": []object{
		file("/var/lib/kubelet/kubeconfig"),
		file("/etc/kubernetes/kubeconfig"),
	}}
	text, err := json.Marshal(pointer)
	if err != nil {
		return "", err
	}
	at := filepath.Join(s.work, node+".ign")
	return at, os.WriteFile(at, text, 0o600)
}

// image puts into a root what the machine's image would have.
func (s *story) image(root string) error {
	units := filepath.Join(s.root, "config", "daemon", "systemd")
	for _, file := range []struct{ mode, from, to string }{
		{"0755", filepath.Join(s.bin, "machine-config-daemon"), "usr/local/bin/machine-config-daemon"},
		{"0755", filepath.Join(s.lab, "lab-kubelet"), "usr/local/bin/lab-kubelet"},
		{"0644", filepath.Join(units, "machine-config-daemon.service"), "usr/lib/systemd/system/machine-config-daemon.service"},
		{"0644", filepath.Join(units, "machine-config-daemon-firstboot.service"), "usr/lib/systemd/system/machine-config-daemon-firstboot.service"},
		{"0644", "testdata/life/image/10-patience.conf", "usr/lib/systemd/system/machine-config-daemon.service.d/10-patience.conf"},
		{"0644", "testdata/life/image/kubelet.service", "usr/lib/systemd/system/kubelet.service"},
		{"0644", "testdata/life/image/10-image.preset", "usr/lib/systemd/system-preset/10-image.preset"},
		{"0644", "testdata/life/image/release", "usr/lib/lab-release"},
	} {
		if err := install(root, file.mode, file.from, file.to); err != nil {
			return err
		}
	}
	return nil
}

func install(root, mode, from, to string) error {
	if out, err := exec.Command("install", "-D", "-m"+mode, from, filepath.Join(root, to)).
		CombinedOutput(); err != nil {
		return fmt.Errorf("installing %s into an image: %w\n%s", to, err, out)
	}
	return nil
}

// osimage NODE IMAGE FILE PATH puts an image into the machine's registry that differs from its first by one program or
// file.
func (s *story) osimage(ts *testscript.TestScript, args []string) error {
	if len(args) != 4 || s.images[args[0]] == nil {
		return usage("osimage NODE IMAGE FILE PATH, after born NODE POOL ostree")
	}
	var failed error
	s.images[args[0]].Commit(args[1], func(root string) error {
		failed = install(root, "0755", ts.MkAbs(args[2]), args[3])
		return failed
	})
	return failed
}

// ignite runs the stages of Ignition that a first boot runs, on a root that does not run yet. With near, Ignition is in
// the machines' network.
func (s *story) ignite(root, pointer string, near bool) error {
	dir, err := os.MkdirTemp(s.work, "ignition-")
	if err != nil {
		return err
	}
	nothing := filepath.Join(dir, "cmdline")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		return err
	}
	// As on a machine, where it is memory that the boot gives up, nothing of it is left. It has the secrets of the
	// first boot.
	defer os.RemoveAll(dir) //nolint:errcheck // the story's end removes it
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, stage := range []string{"fetch", "files"} {
		argv := []string{
			filepath.Join(s.lab, "ignition"), "-platform", "file", "-stage", stage, "-root", root,
			"-config-cache", filepath.Join(dir, "config.json"), "-state-file", filepath.Join(dir, "state"), "-neednet",
			filepath.Join(dir, "neednet"), "-log-to-stdout",
		}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		if near {
			cmd = s.network.Command(ctx, argv...)
		}
		cmd.Env = append(os.Environ(), "IGNITION_CONFIG_FILE="+pointer, "IGNITION_KERNEL_CMDLINE_PATH="+nothing,
			"IGNITION_SYSTEM_CONFIG_DIR="+dir, "IGNITION_SYSTEM_RUNTIME_CONFIG_DIR="+dir,
			"IGNITION_SYSTEM_LOCAL_CONFIG_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("provisioning by Ignition, stage %s: %w\n%s", stage, err, out)
		}
	}
	return nil
}

// inside NODE PROGRAM... runs a program on a machine; what it prints can be looked at.
func (s *story) inside(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 || s.hosts[args[0]] == nil {
		return usage("inside NODE PROGRAM..., after born")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := s.hosts[args[0]].Exec(ctx, args[1:]...)
	if _, printed := fmt.Fprint(ts.Stdout(), out); printed != nil {
		return printed
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// boots NODE N tells that the machine was booted so often by now, and waits for the last to be up. N+ allows more: an
// update of the OS that was staged and is not what the machine boots into is staged again by the daemon, which costs a
// boot.
func (s *story) boots(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 || s.hosts[args[0]] == nil {
		return usage("boots NODE N, after born")
	}
	number, more := strings.CutSuffix(args[1], "+")
	want, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	h := s.hosts[args[0]]
	h.AwaitBoot(context.Background(), want)
	if is := h.Boots(); is != want && (!more || is < want) {
		return fmt.Errorf("%s was booted %d times, not %s", h.Name, is, args[1])
	}
	return nil
}

// powercut NODE ends everything on a machine at once; it starts again.
func (s *story) powercut(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 || s.hosts[args[0]] == nil {
		return usage("powercut NODE, after born")
	}
	s.hosts[args[0]].PowerCut()
	return nil
}
