package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

const defaultDatabase = "https://vuln.go.dev"

// run returns errFound after it has printed the findings.
var errFound = errors.New("known vulnerabilities found: raise the module, or accept a finding in " +
	"tools/vulnerabilities/accepted.txt with the reason")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv("GOVULNDB"), defaultDatabase, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks binaries against the named database, or against the fallback database if no database is named.
func run(ctx context.Context, args []string, named, fallback string, out io.Writer) error {
	flags := flag.NewFlagSet("vulnerabilities", flag.ContinueOnError)
	root := flags.String("root", "..", "the repository's root")
	if err := flags.Parse(args); err != nil {
		return err
	}
	database := fallback
	if named != "" {
		database = named
	}
	if err := reachable(ctx, database); err != nil {
		if named != "" {
			return fmt.Errorf("reading the vulnerability database of GOVULNDB: %w", err)
		}
		fmt.Fprintln(out, "vulnerabilities: not checked: no database reachable (set GOVULNDB)")
		return nil
	}
	accepted, err := readAccepted(filepath.Join(*root, "tools", "vulnerabilities", "accepted.txt"))
	if err != nil {
		return err
	}
	binaries := flags.Args()
	if len(binaries) == 0 {
		if binaries, err = build(ctx, *root); err != nil {
			return err
		}
	}
	open := 0
	for _, b := range binaries {
		findings, err := scanBinary(ctx, database, b)
		if err != nil {
			return err
		}
		for _, f := range findings {
			why, isAccepted := accepted[f.ID]
			switch {
			case isAccepted:
				fmt.Fprintf(out, "vulnerabilities: %s: %s, accepted: %s\n", filepath.Base(b), f, why)
			default:
				open++
				fmt.Fprintf(out, "vulnerabilities: %s: %s\n", filepath.Base(b), f)
			}
		}
	}
	if open > 0 {
		return errFound
	}
	fmt.Fprintf(out, "vulnerabilities: none known in %d binaries by %s\n", len(binaries), database)
	return nil
}

// programs are the programs that build links in each module. The environment is that of the published programs, so that
// go build uses its cache.
var programs = []struct {
	module   string
	env      []string
	packages []string
}{
	{".", []string{"CGO_ENABLED=0"}, []string{"./cmd/bunsen", "./cmd/machine-config-controller", "./cmd/machine-config-server", "./cmd/machine-config-daemon", "./cmd/simulated-host"}},
	{"standalone", nil, []string{"."}},
}

// build links the project's programs with their symbols, because the published programs have no symbols. Go caches
// unchanged packages, so that a second run takes seconds.
func build(ctx context.Context, root string) (binaries []string, err error) {
	out, err := filepath.Abs(filepath.Join(root, "bin", "symbols"))
	if err != nil {
		return nil, fmt.Errorf("finding the directory for binaries: %w", err)
	}
	for _, p := range programs {
		cmd := exec.CommandContext(ctx, "go",
			append([]string{"build", "-ldflags=-w", "-o", out + string(filepath.Separator)}, p.packages...)...)
		cmd.Dir = filepath.Join(root, p.module)
		cmd.Env = append(os.Environ(), p.env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building %s for the check of vulnerabilities: %w: %s",
				strings.Join(p.packages, " "), err, text)
		}
		for _, name := range p.packages {
			if name == "." {
				name = p.module
			}
			binaries = append(binaries, filepath.Join(out, filepath.Base(name)))
		}
	}
	return binaries, nil
}
