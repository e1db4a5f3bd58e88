package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// creator is the verb token create.
type creator struct {
	granter
	output     string
	offline    bool
	tokensFile string
}

const createOutputs = "token, json or yaml"

func tokenCreateCommand() *cobra.Command {
	var t creator
	cmd := &cobra.Command{
		Use: "create --pool NAME", Short: "Make a token, and print it this once",
		Long: `Make a token and print it on standard output, alone, so that a script can take it; what it is for goes to standard error. The
cluster keeps its hash and what it is good for: nobody can print it again. Without --ttl it is good for 24 hours. A machine may
ask more than once while it starts: give --uses one or two to spare.

Without a cluster: --tokens-file FILE adds what is to be kept to the file that "machine-config-server --tokens-file" reads, and
prints the token as ever; --offline prints what is to be kept on standard output, for such a file or for "kubectl apply -f -",
and the token on standard error.

Exit codes: 0 made, 2 invalid input or no such pool, 3 cluster out of reach, or permission denied.`,
		Example: `  bunsen token create --pool worker --ttl 24h
  bunsen token create --pool worker --node worker-07 --uses 3 --ttl 1h -o json
  TOKEN=$(bunsen token create --pool worker)
  TOKEN=$(bunsen token create --pool master --tokens-file tokens.yaml)
  bunsen token create --pool master --offline >> tokens.yaml`,
		Args: t.poolOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return provisioning(t.run(cmd)) },
	}
	t.flags(cmd)
	cmd.Flags().StringVarP(&t.output, "output", "o", "token", createOutputs+": the token alone, or with what it is for")
	cmd.Flags().BoolVar(&t.offline, "offline", false, "ask no cluster: print what is to be kept of the token, and the token on standard error")
	cmd.Flags().StringVar(&t.tokensFile, "tokens-file", "", "ask no cluster: add what is to be kept of the token to this file")
	cmd.MarkFlagsMutuallyExclusive("offline", "tokens-file")
	cmd.MarkFlagsMutuallyExclusive("offline", "output")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"token", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (t *creator) run(cmd *cobra.Command) error {
	if !slices.Contains([]string{"token", "json", "yaml"}, t.output) {
		return invalid(fmt.Errorf("--output %q: want %s", t.output, createOutputs))
	}
	if err := t.check(); err != nil {
		return err
	}
	out, notes := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if t.offline || t.tokensFile != "" {
		return t.keepHere(out, notes)
	}
	c, err := t.connect("table")
	if err != nil {
		return err
	}
	made, kept, err := t.create(cmd.Context(), c)
	if err != nil {
		return err
	}
	say(notes, "%s; it is shown this once", about(kept, time.Now()))
	return t.print(out, made, kept)
}

// keepHere makes a token that no cluster knows.
func (t *creator) keepHere(out, notes io.Writer) error {
	made, kept, err := t.fresh()
	if err != nil {
		return err
	}
	object, err := document(kept)
	if err != nil {
		return err
	}
	if t.offline {
		say(notes, "%s; standard output has what is to be kept. The token, shown this once:", about(kept, time.Now()))
		say(notes, "%s", made.String())
		_, err = fmt.Fprintf(out, "---\n%s", object)
		return err
	}
	if err := checkTokens(t.tokensFile); err != nil {
		return invalid(err)
	}
	if err := appendFile(t.tokensFile, object); err != nil {
		return invalid(fmt.Errorf("writing %s: %w", t.tokensFile, err))
	}
	say(notes, "%s; it is shown this once. What is kept of it is in %s now", about(kept, time.Now()), t.tokensFile)
	return t.print(out, made, kept)
}

// document is a token's object without what the API server fills in.
func document(kept *v1alpha1.ProvisioningToken) ([]byte, error) {
	out, err := yaml.Marshal(struct {
		APIVersion string                         `json:"apiVersion"`
		Kind       string                         `json:"kind"`
		Metadata   map[string]string              `json:"metadata"`
		Spec       v1alpha1.ProvisioningTokenSpec `json:"spec"`
	}{kept.APIVersion, kept.Kind, map[string]string{"name": kept.Name}, kept.Spec})
	if err != nil {
		return nil, fmt.Errorf("writing the token's object: %w", err)
	}
	return out, nil
}

// madeToken is a new token as data.
type madeToken struct {
	ID      string    `json:"id"`
	Token   string    `json:"token"`
	Pool    string    `json:"pool"`
	Node    string    `json:"node,omitempty"`
	Uses    int32     `json:"uses"`
	Expires time.Time `json:"expires"`
}

// print writes the token, which goes nowhere else.
func (t *creator) print(w io.Writer, made token.Token, kept *v1alpha1.ProvisioningToken) error {
	if t.output == "token" {
		_, err := fmt.Fprintln(w, made.String())
		return err
	}
	raw, err := json.MarshalIndent(madeToken{made.ID, made.String(), kept.Spec.Pool, kept.Spec.Node, kept.Spec.Uses, kept.Spec.Expires.Time}, "", "  ")
	if err == nil && t.output == "yaml" {
		raw, err = yaml.JSONToYAML(raw)
	}
	if err != nil {
		return fmt.Errorf("printing as %s: %w", t.output, err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(raw), "\n"))
	return err
}
