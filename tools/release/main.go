package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// binary is one program that a release contains.
type binary struct {
	Name string
	// Module is the directory of the program's Go module, relative to the repository's root. Package is the program's
	// package in that module.
	Module, Package string
	// Purpose is a sentence about the program, for its image. A program without a Purpose has no image.
	Purpose string
	// User is the user of the program's image. An empty User is root.
	User string
}

var binaries = []binary{
	{"bunsen", ".", "./cmd/bunsen", "Reviews, follows and steers the configs of a cluster's nodes", unprivileged},
	{"machine-config-controller", ".", "./cmd/machine-config-controller", "Renders the configs of all pools from git and rolls them out", unprivileged},
	{"machine-config-server", ".", "./cmd/machine-config-server", "Serves configs to machines that join a cluster", unprivileged},
	{"machine-config-daemon", ".", "./cmd/machine-config-daemon", "Applies its config to the node that it runs on", ""},
	{"simulated-host", ".", "./cmd/simulated-host", "", ""},
	{"bunsen-standalone", "standalone", ".", "", ""},
}

// platforms are the platforms of a release.
var platforms = []linked.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var o buildOptions
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.Root, "root", "..", "the repository's root")
	flags.StringVar(&o.Out, "o", "", "the directory to write to")
	flags.StringVar(&o.Version, "version", "dev", "the version of the binaries")
	flags.StringVar(&o.Bin, "bin", "", "a directory with the programs for this machine, instead of compiling them "+
		"for all platforms")
	flags.StringVar(&o.Repository, "push", "", "the repository to push images to, such as registry.example.com/bunsen")
	flags.BoolVar(&o.CI, "ci", false, "also write the image for jobs of CI; needs mmdebstrap and an archive of Debian")
	flags.StringVar(&o.Downloads, "downloads", "", "the URL below which users find the files (default: the release on "+
		"GitHub)")
	flags.StringVar(&o.Key, "key", "", "a file with the private key (PEM; ECDSA or Ed25519) for signatures")
	commands := map[string]func() error{
		"licences":  func() error { return checkLicences(ctx, o.Root) },
		"files":     func() error { return writeFiles(ctx, o.Root, o.Out, o.Version) },
		"images":    func() error { return build(ctx, o, writeImages) },
		"manifests": func() error { return writeManifests(o.Root, o.Out) },
		"chart":     func() error { return writeChart(o.Root, o.Out, o.Version) },
		"pins":      func() error { return writePins(o) },
		"tag":       func() error { return checkTag(ctx, o.Root, "HEAD", o.Version) },
		"cli":       func() error { return buildCLI(ctx, o) },
		"all":       func() error { return build(ctx, o, writeImages, writeCLI, writeRelease) },
	}
	names := strings.Join(slices.Sorted(maps.Keys(commands)), ", ")
	if len(args) == 0 {
		return fmt.Errorf("release needs one of these commands: %s", names)
	}
	command := commands[args[0]]
	if command == nil {
		return fmt.Errorf("release knows no command %q; use one of these: %s", args[0], names)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if o.Out == "" && args[0] != "licences" && args[0] != "tag" {
		return fmt.Errorf("release %s needs -o DIR", args[0])
	}
	return command()
}

// build compiles all programs once, and calls each writer with all programs.
func build(ctx context.Context, o buildOptions, writers ...func(context.Context, buildOptions, []program,
	commit) error,
) error {
	c, err := o.commit(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return fmt.Errorf("creating the directory to write to: %w", err)
	}
	programs, err := compileAll(ctx, o)
	if err != nil {
		return err
	}
	for _, write := range writers {
		if err := write(ctx, o, programs, c); err != nil {
			return err
		}
	}
	return nil
}

// modulesOf returns the modules that a binary links on the platforms.
func modulesOf(ctx context.Context, root string, b binary, on ...linked.Platform) ([]linked.Module, error) {
	modules, err := linked.Modules(ctx, filepath.Join(root, b.Module), []string{b.Package}, on...)
	if err != nil {
		return nil, fmt.Errorf("listing the modules of %s: %w", b.Name, err)
	}
	return modules, nil
}

// checkLicences checks the modules of all binaries on all platforms.
func checkLicences(ctx context.Context, root string) error {
	all := map[string]linked.Module{}
	for _, b := range binaries {
		modules, err := modulesOf(ctx, root, b, b.platforms()...)
		if err != nil {
			return err
		}
		for _, m := range modules {
			all[m.Path+"@"+m.Version] = m
		}
	}
	j, err := newJudge(reviewed)
	if err != nil {
		return err
	}
	counts, err := j.count(all)
	if err != nil {
		return err
	}
	fmt.Printf("licences: %d modules of %d binaries: %s\n", len(all), len(binaries), counts)
	return nil
}

// papers are the documents that a release has for a binary.
type papers struct{ Notices, Bill []byte }

// papersOf returns the notices of third parties and the bill of materials of a binary on a platform.
func papersOf(ctx context.Context, root, version string, b binary, at linked.Platform) (papers, error) {
	own, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return papers{}, fmt.Errorf("reading the project's licence: %w", err)
	}
	j, err := newJudge(reviewed)
	if err != nil {
		return papers{}, err
	}
	modules, err := modulesOf(ctx, root, b, at)
	if err != nil {
		return papers{}, err
	}
	text, err := j.notices(b.Name, version, string(own), modules)
	if err != nil {
		return papers{}, err
	}
	bill, err := j.bill(b.Name, version, os.Getenv("SOURCE_DATE_EPOCH"), modules)
	return papers{[]byte(text), bill}, err
}

// writeFiles writes the notices and the bill of materials of each binary for this machine's platform.
func writeFiles(ctx context.Context, root, out, version string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("creating the directory for the files: %w", err)
	}
	for _, b := range binaries {
		p, err := papersOf(ctx, root, version, b, linked.Platform{OS: "linux", Arch: arch()})
		if err != nil {
			return err
		}
		for suffix, content := range map[string][]byte{".notices.txt": p.Notices, ".cdx.json": p.Bill} {
			if err := os.WriteFile(filepath.Join(out, b.Name+suffix), content, 0o644); err != nil {
				return fmt.Errorf("writing a file of %s: %w", b.Name, err)
			}
		}
	}
	return nil
}

// arch returns the architecture of the binaries: GOARCH, or else that of this machine.
func arch() string {
	if a := os.Getenv("GOARCH"); a != "" {
		return a
	}
	return runtime.GOARCH
}
