package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/pointer"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// pointing is the verb pointer.
type pointing struct {
	granter
	server, ca, token, output, version string
	noToken, noCA, zipped              bool
}

const pointerOutputs = "ignition or butane"

func pointerCommand() *cobra.Command {
	var p pointing
	cmd := &cobra.Command{
		Use: "pointer --pool NAME [--server URL]", Short: "Print the Ignition config that a new machine starts with", GroupID: "machines",
		Long: `Print what a new machine of a pool is handed at birth, as user data of a cloud, by PXE or by QEMU: an Ignition config of about a
kilobyte that says where its real config is, whom to believe, and by which token to ask.

Without --token a token is made, as "bunsen token create" does, for which --node, --uses and --ttl say what it is good for. The CA
is read from the cluster (ConfigMap bunsen-system/machine-config-server-ca) unless --ca names a file, and so is the server's
URL where the cluster knows it. With --server, --ca and --token no cluster is asked. Hand a token over with --token - on standard
input: the arguments of a program show in the machine's list of processes.

Ignition 3.1.0, the default, is read by every Ignition since 2.3. 3.0.0 and 2.2.0 are for older ones: they have no headers, so the
token stands in the URL, which such a machine writes to its log. Whoever has the pointer has the token: keep it as a secret.

Exit codes: 0 printed, 2 invalid input, 3 cluster out of reach, or permission denied.`,
		Example: `  bunsen pointer --pool worker --server https://api.example.com:22623 > worker.ign
  bunsen pointer --pool worker --server https://api.example.com:22623 --ttl 7d -o butane
  bunsen pointer --pool worker --node worker-07 --uses 3 --ttl 1h
  bunsen token create --pool master --tokens-file tokens.yaml | bunsen pointer --pool master --token - --ca ca.crt --server https://10.0.0.2:22623`,
		Args:    p.poolOnly,
		PreRunE: p.noneMade,
		RunE:    func(cmd *cobra.Command, _ []string) error { return provisioning(p.run(cmd)) },
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&p.server, "server", "", "the server's URL as new machines reach it, such as https://api.example.com:22623; empty: as the cluster has it")
	cmd.Flags().StringVar(&p.ca, "ca", "", "file with the certificates of the CAs to believe the server by, as PEM; empty: as the cluster has it")
	cmd.Flags().BoolVar(&p.noCA, "no-ca", false, "name no CA: the server's certificate is one that the machine's image believes anyway")
	cmd.Flags().StringVar(&p.token, "token", "", "the token to ask with, or - for standard input, which no list of processes shows; empty: make one")
	cmd.Flags().BoolVar(&p.noToken, "no-token", false, "ask without a token: for a server that runs with --open")
	cmd.Flags().StringVarP(&p.output, "output", "o", "ignition", pointerOutputs)
	cmd.Flags().StringVar(&p.version, "version", string(pointer.Default), "version of Ignition to write: "+versions(", "))
	cmd.Flags().BoolVar(&p.zipped, "gzip", false, "ask the server for a compressed config")
	for _, made := range []string{"node", "uses", "ttl"} {
		cmd.MarkFlagsMutuallyExclusive("token", made)
		cmd.MarkFlagsMutuallyExclusive("no-token", made)
	}
	cmd.MarkFlagsMutuallyExclusive("token", "no-token")
	cmd.MarkFlagsMutuallyExclusive("ca", "no-ca")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"ignition", "butane"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("version", cobra.FixedCompletions(strings.Split(versions(" "), " "), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// noneMade refuses what a token that is made is good for, where none is made.
func (p *pointing) noneMade(cmd *cobra.Command, _ []string) error {
	for _, given := range []string{"token", "no-token"} {
		for _, made := range []string{"node", "uses", "ttl"} {
			if cmd.Flags().Changed(given) && cmd.Flags().Changed(made) {
				return fmt.Errorf("--%s is for a token that is made: leave it out with --%s", made, given)
			}
		}
	}
	return nil
}

func versions(between string) string {
	var out []string
	for _, v := range pointer.Versions() {
		out = append(out, string(v))
	}
	return strings.Join(out, between)
}

func (p *pointing) run(cmd *cobra.Command) error {
	if !slices.Contains([]string{"ignition", "butane"}, p.output) {
		return invalid(fmt.Errorf("--output %q: want %s", p.output, pointerOutputs))
	}
	if err := p.check(); err != nil {
		return err
	}
	out, err := p.gather(cmd)
	if err != nil {
		return err
	}
	// Nothing is made for a pointer that cannot be written.
	text, err := p.write(out)
	if err != nil {
		return invalid(err)
	}
	if out.Token == "" && !p.noToken {
		c, err := p.connect("table")
		if err != nil {
			return err
		}
		made, kept, err := p.create(cmd.Context(), c)
		if err != nil {
			return err
		}
		say(cmd.ErrOrStderr(), "%s; it is in the pointer, and shown this once", about(kept, time.Now()))
		out.Token = made.String()
		if text, err = p.write(out); err != nil {
			return invalid(err)
		}
	}
	p.remark(cmd.ErrOrStderr(), out, len(text))
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// gather reads what the flags name, and asks the cluster for the rest.
func (p *pointing) gather(cmd *cobra.Command) (pointer.Pointer, error) {
	out := pointer.Pointer{Pool: p.grant.Pool, Server: p.server, Token: p.token, Version: mcs.Version(p.version), Zipped: p.zipped}
	var err error
	if p.token == "-" {
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1<<10))
		if err != nil {
			return out, invalid(fmt.Errorf("reading the token from standard input: %w", err))
		}
		if out.Token = strings.TrimSpace(string(text)); out.Token == "" {
			return out, invalid(errors.New("--token -: standard input is empty"))
		}
	}
	if _, err := token.Parse(out.Token); out.Token != "" && err != nil {
		return out, invalid(errors.New("--token: that is no provisioning token: want bunsen.ID.SECRET, as `bunsen token create` prints it"))
	}
	if p.ca != "" {
		if out.CA, err = os.ReadFile(p.ca); err != nil {
			return out, invalid(fmt.Errorf("reading the CA: %w", err))
		}
		if len(out.CA) == 0 {
			return out, invalid(fmt.Errorf("reading the CA: %s is empty; --no-ca names none", p.ca))
		}
	}
	if (p.ca != "" || p.noCA) && p.server != "" {
		return out, nil
	}
	c, err := p.connect("table")
	if err != nil {
		return out, err
	}
	return p.ask(cmd.Context(), c, out)
}

// ask fills in what the cluster knows of its servers.
func (p *pointing) ask(ctx context.Context, c client.Client, out pointer.Pointer) (pointer.Pointer, error) {
	published, err := readServers(ctx, c)
	if err != nil {
		return out, err
	}
	var missing []error
	caSource := "--ca"
	if p.ca == "" && !p.noCA {
		caSource = publishedIn
		out.CA, err = published.authority()
		missing = append(missing, err)
	}
	if p.server != "" {
		missing = append(missing, published.fits(p.server, out.CA, caSource))
	}
	if p.server == "" {
		out.Server, err = published.url(out.CA, caSource)
		missing = append(missing, err)
	}
	if err := errors.Join(missing...); err != nil {
		return out, invalid(err)
	}
	return out, nil
}

func (p *pointing) write(out pointer.Pointer) ([]byte, error) {
	if p.output == "butane" {
		return out.Butane()
	}
	return out.Ignition()
}

// userDataLimit is what AWS takes as user data, which is the least of all clouds.
const userDataLimit = 16 << 10

// remark says what the reader of a pointer should know.
func (p *pointing) remark(w io.Writer, out pointer.Pointer, size int) {
	if out.TokenInURL() {
		say(w, "note: Ignition %s has no headers, so the token stands in the URL, which the machine writes to its log; take --version %s where its Ignition knows it", out.Version, pointer.Default)
	}
	if u, err := url.Parse(out.Server); err == nil && u.Port() == "" {
		source := "--server"
		if p.server == "" {
			source = urlSource
		}
		say(w, "note: no port in %s: machines ask at 443; servers listen on 22623 unless told otherwise", source)
	}
	if size > userDataLimit {
		say(w, "note: it has %d bytes, and AWS takes %d as user data: give fewer certificates with --ca", size, userDataLimit)
	}
}
