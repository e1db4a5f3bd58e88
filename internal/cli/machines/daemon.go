package machines

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// The values of the flag --daemon.
const (
	daemonAuto   = "auto"
	daemonServer = "server"
	daemonNone   = "none"
)

// Daemon has the flags that select how a new machine gets the daemon.
type Daemon struct {
	from, arch, path string
	url, sha512      string
}

// AddFlags adds the flags.
func (d *Daemon) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.from, "daemon", daemonAuto, "whether the first boot installs machine-config-daemon as a service. "+
		"server: the server sends it. none: it is\nin the image or the pool's config, or runs as a pod. auto: "+
		"server, if the cluster's servers have it, else none")
	f.StringVar(&d.arch, "daemon-arch", "", "architecture of the machines: "+strings.Join(join.Architectures(), ", ")+
		"; empty: that of the server's binary")
	f.StringVar(&d.path, "daemon-path", join.DefaultBinaryPath,
		"path of the binary: "+strings.Join(join.BinaryPaths(), ", ")+
			"; Flatcar needs the latter")
	f.StringVar(&d.url, "daemon-url", "", "`URL` of the binary, compressed if it ends in .gz; in place of the server's")
	f.StringVar(&d.sha512, "daemon-sha512", "", "SHA-512 of the binary at --daemon-url, in hexadecimal; Ignition "+
		"accepts no other one")
	cmd.MarkFlagsRequiredTogether("daemon-url", "daemon-sha512")
	cmd.MarkFlagsMutuallyExclusive("daemon", "daemon-url")
	cmd.MarkFlagsMutuallyExclusive("daemon-arch", "daemon-url")
	cli.CompleteFlag(cmd, "daemon", cobra.FixedCompletions([]string{daemonAuto, daemonServer, daemonNone},
		cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(cmd, "daemon-arch", cobra.FixedCompletions(join.Architectures(),
		cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(cmd, "daemon-path", cobra.FixedCompletions(join.BinaryPaths(), cobra.ShellCompDirectiveNoFileComp))
}

// choose returns how machines get the daemon; nil if the pointer config does not install it. The parameter offered has
// the architectures of each running server's binaries; nil if bunsen has not read a cluster.
func (d *Daemon) choose(offered [][]string) (*join.Daemon, error) {
	out := &join.Daemon{Arch: d.arch, Path: d.path, URL: d.url, SHA512: d.sha512}
	switch d.from {
	case daemonAuto, daemonServer, daemonNone:
	default:
		return nil, fmt.Errorf("--daemon %q: want %s, %s or %s", d.from, daemonAuto, daemonServer, daemonNone)
	}
	switch {
	case d.url != "":
		return out, nil
	case d.from == daemonNone:
		return nil, nil
	}
	if out.Arch == "" {
		switch common := commonArchs(offered); {
		case len(common) == 1:
			out.Arch = common[0]
		case len(common) > 1:
			return nil, fmt.Errorf(
				"the servers have the daemon for %s: choose one with --daemon-arch, or --daemon none",
				strings.Join(common, " and "))
		case d.from == daemonAuto:
			return nil, nil
		case offered == nil:
			return nil, errors.New("--daemon server needs --daemon-arch, unless bunsen reads it from a cluster")
		}
	}
	if offered != nil && !slices.Contains(commonArchs(offered), out.Arch) {
		if d.from == daemonAuto {
			return nil, nil
		}
		return nil, fmt.Errorf("not every machine-config-server has the daemon%s: start the servers with --daemon "+
			"FILE, or name a binary with --daemon-url", forArch(out.Arch))
	}
	if offered == nil && d.from == daemonAuto {
		return nil, nil
	}
	return out, nil
}

func forArch(arch string) string {
	if arch == "" {
		return ""
	}
	return " for " + arch
}

func commonArchs(offered [][]string) (out []string) {
	for i, archs := range offered {
		if i == 0 {
			out = slices.Clone(archs)
		}
		out = slices.DeleteFunc(out, func(a string) bool { return !slices.Contains(archs, a) })
	}
	return out
}

// printNote says how the machine gets the daemon if the flag is auto.
func (d *Daemon) printNote(w io.Writer, chosen *join.Daemon, asked bool) {
	switch {
	case chosen != nil && chosen.URL == "":
		cli.Say(w, "note: it installs machine-config-daemon for %s from the server, as a service; --daemon none "+
			"leaves it out", chosen.Arch)
	case chosen == nil && asked && d.from == daemonAuto:
		cli.Say(w, "note: the pointer config does not install machine-config-daemon, because the servers do not have "+
			"it%s. Put it into the image or the config, or run it as a pod", forArch(d.arch))
	}
}
