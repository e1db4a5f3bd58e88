package up

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

// options are the values of the flags, with absolute paths.
type options struct {
	data, bin, config, examples string
	source                      source
	nodes                       int
	ports                       portNumbers
	// If bare is true, only the upstream programs are started, without Bunsen.
	bare bool
	// If unsafe is true, etcd writes without a sync to the disk.
	unsafe bool
	// self is the path of this executable.
	self string
}

// source selects the repository to follow. If repo is empty, a start creates a repository from the examples.
type source struct{ repo, path, ref string }

type portNumbers struct{ api, etcd, etcdPeer, ignition int }

// portList returns every port for the check before the start.
func (o options) portList() []plane.Port {
	list := []plane.Port{
		{Number: o.ports.api, Purpose: "Kubernetes API", Flag: "--api-port"},
		{Number: o.ports.etcd, Purpose: "database (etcd)", Flag: "--etcd-port"},
		{Number: o.ports.etcdPeer, Purpose: "database's peer port (etcd)", Flag: "--etcd-peer-port"},
	}
	if !o.bare {
		list = append(list, plane.Port{Number: o.ports.ignition, Purpose: "Ignition server", Flag: "--ignition-port"})
	}
	return list
}

func (o options) apiURL() string { return fmt.Sprintf("https://127.0.0.1:%d", o.ports.api) }

func (o options) ignitionAddress() string { return fmt.Sprintf("127.0.0.1:%d", o.ports.ignition) }

// hostNames returns the names of the simulated hosts. All simulated hosts are workers, so that a change of the pool
// worker applies to each host.
func (o options) hostNames() []string {
	names := make([]string, 0, o.nodes)
	for n := range o.nodes {
		names = append(names, fmt.Sprintf("node-%d", n+1))
	}
	return names
}

// maxNodes is the maximum number of simulated hosts. A larger number is probably a typing error.
const maxNodes = 50

func parse(args []string, usage io.Writer) (options, error) {
	self, err := os.Executable()
	if err != nil {
		return options{}, fmt.Errorf("finding this executable: %w", err)
	}
	o := options{self: self}
	f := flag.NewFlagSet("bunsen-standalone up", flag.ContinueOnError)
	f.SetOutput(usage)
	f.StringVar(&o.data, "data", ".bunsen", "`folder` for all data")
	f.StringVar(&o.bin, "bin", filepath.Dir(self), "`folder` of Bunsen's programs")
	f.StringVar(&o.config, "config", "config", "`folder` with the kustomization of CRDs and RBAC")
	f.StringVar(&o.examples, "examples", "examples/quickstart", "`folder` for the first commit of a new repository")
	f.StringVar(&o.source.repo, "repo", "", "`URL` or path of the repository to follow (default: a new one from "+
		"--examples)")
	f.StringVar(&o.source.path, "path", "", "`folder` in the repository that holds pools/")
	f.StringVar(&o.source.ref, "ref", "", "`branch` to follow (default: the repository's default branch)")
	f.IntVar(&o.nodes, "nodes", 3, "`number` of simulated hosts")
	f.IntVar(&o.ports.api, "api-port", 16443, "`port` of the Kubernetes API")
	f.IntVar(&o.ports.etcd, "etcd-port", 12379, "`port` of etcd")
	f.IntVar(&o.ports.etcdPeer, "etcd-peer-port", 12380, "peer `port` of etcd")
	f.IntVar(&o.ports.ignition, "ignition-port", 22623, "`port` of the Ignition server")
	f.BoolVar(&o.bare, "bare", false, "start only the Kubernetes control plane, without Bunsen")
	f.BoolVar(&o.unsafe, "unsafe-no-fsync", false, "for tests: etcd does not sync its writes to the disk, so a power "+
		"cut can destroy the database")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	return o, o.settle(f.Args())
}

func (o *options) settle(rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: options begin with --", rest[0]))
	}
	if o.nodes < 0 || o.nodes > maxNodes {
		errs = append(errs, fmt.Errorf("--nodes is %d: set 0 to %d", o.nodes, maxNodes))
	}
	// Another process in another working directory reads a local repository, so its path must be absolute.
	if o.source.repo != "" {
		if info, err := os.Stat(o.source.repo); err == nil && info.IsDir() {
			errs = append(errs, absolute(&o.source.repo))
		}
	} else if o.source.ref == "" {
		o.source.ref = repositoryBranch
	}
	for _, p := range []*string{&o.data, &o.bin, &o.config, &o.examples} {
		errs = append(errs, absolute(p))
	}
	return errors.Join(errs...)
}

func absolute(path *string) error {
	abs, err := filepath.Abs(*path)
	if err != nil {
		return fmt.Errorf("finding %q: %w", *path, err)
	}
	*path = abs
	return nil
}
