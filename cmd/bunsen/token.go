package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
	"github.com/bunsen-os/bunsen/mcs/token"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token create|list|revoke|prune", Short: "Let new machines of a pool fetch their config, and end that", GroupID: "machines",
		Long: `Make, list, revoke and delete the tokens by which new machines ask the machine-config-server for their config. A token is good
for one pool, until its end, and if you like for one node or for so many machines. It is shown once: the cluster keeps its
hash. "bunsen pointer" makes one and puts it into the config that a machine starts with.`,
		Example: `  bunsen token create --pool worker --ttl 24h
  bunsen token list
  bunsen token revoke abcdefghij`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("token %s: want one of create, list, revoke, prune", strings.Join(args, " "))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(tokenCreateCommand(), tokenListCommand(), tokenRevokeCommand(), tokenPruneCommand())
	return cmd
}

// granter makes tokens.
type granter struct {
	target
	grant token.Grant
	ttl   lifetime
}

// lifetime is a span that remembers how it was given.
type lifetime struct {
	span
	typed string
}

// String is what was typed.
func (l *lifetime) String() string { return l.typed }

// Set reads what span reads.
func (l *lifetime) Set(text string) error {
	l.typed = text
	return l.span.Set(text)
}

func (g *granter) flags(cmd *cobra.Command) {
	g.target.flags(cmd)
	g.ttl = lifetime{span(24 * time.Hour), "24h"}
	cmd.Flags().StringVar(&g.grant.Pool, "pool", "", "the pool of the new machines")
	cmd.Flags().StringVar(&g.grant.Node, "node", "", "make the token for this one node, which gets the secrets of its config at once; empty: any machine of the pool")
	cmd.Flags().Int32Var(&g.grant.Uses, "uses", 0, "how often a config is served to the token; 0: any number of times")
	cmd.Flags().Var(&g.ttl, "ttl", "how long the token is good, such as 30m, 24h or 7d; at most 90d")
	_ = cmd.RegisterFlagCompletionFunc("pool", g.completePools) // the flag is there
}

// check says what is wrong with the grant, before anything is asked or made.
func (g *granter) check() error {
	g.grant.Lasts = time.Duration(g.ttl.span)
	if g.grant.Pool == "" {
		return invalid(errors.New("say which pool the new machines are of: --pool NAME"))
	}
	var errs []error
	asked := g.grant
	if asked.Lasts < token.Shortest || asked.Lasts > token.Longest {
		errs = append(errs, fmt.Errorf("--ttl %s: it must be between 1m and 90d; create a new token when this one expires", g.ttl.typed))
		asked.Lasts = token.Longest // it is said already, in the words that were typed
	}
	if err := errors.Join(append(errs, asked.Check())...); err != nil {
		return invalid(err)
	}
	return nil
}

// poolOnly refuses arguments. A name alone is most likely the pool's; a token is not repeated.
func (g *granter) poolOnly(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case strings.HasPrefix(args[0], "bunsen."):
		return errors.New("unexpected argument 1: is it a token? Give it with --token")
	case g.grant.Pool == "":
		return fmt.Errorf("unexpected argument %q: did you mean --pool %s?", args[0], strings.TrimPrefix(args[0], "pool/"))
	}
	return fmt.Errorf("unexpected argument %q", args[0])
}

// fresh is a token and what is kept of it.
func (g *granter) fresh() (token.Token, *v1alpha1.ProvisioningToken, error) {
	t, err := token.New(rand.Reader)
	if err != nil {
		return token.Token{}, nil, err
	}
	return t, g.grant.Keep(t, time.Now()), nil
}

// create makes a token that the cluster knows, for a pool that it has.
func (g *granter) create(ctx context.Context, c client.Client) (token.Token, *v1alpha1.ProvisioningToken, error) {
	pools, err := listNames(ctx, c, aPool)
	if err != nil {
		return token.Token{}, nil, undone("reading MachineConfigPools", err)
	}
	if err := among(pools, g.grant.Pool); err != nil {
		return token.Token{}, nil, err
	}
	t, kept, err := g.fresh()
	if err != nil {
		return token.Token{}, nil, err
	}
	if err := c.Create(ctx, kept, client.FieldOwner("bunsen")); err != nil {
		return token.Token{}, nil, undone("making a token", err)
	}
	return t, kept, nil
}

// among says that a pool is none of those that there are.
func among(pools []string, pool string) error {
	if slices.Contains(pools, pool) {
		return nil
	}
	there := "it has none yet"
	if len(pools) > 0 {
		there = "it has " + strings.Join(pools, ", ")
	}
	return invalid(fmt.Errorf("the cluster has no pool %q: %s", pool, there))
}

// provisioning adds to a refusal of the cluster who may work with tokens.
func provisioning(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w; ClusterRole bunsen-provisioner and the Role of that name in bunsen-system grant it", err)
}

// noFile takes the flag of token create, and says what to do instead.
func noFile(cmd *cobra.Command, instead string) {
	const name = "tokens-file"
	cmd.Flags().String(name, "", "is for token create")
	_ = cmd.Flags().MarkHidden(name) // the flag is there
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed(name) {
			return errors.New("--tokens-file is for `bunsen token create`: " + instead)
		}
		return nil
	}
}

// about says what a token is for, in a line without its end.
func about(kept *v1alpha1.ProvisioningToken, now time.Time) string {
	who := "for any machine of pool " + kept.Spec.Pool
	if kept.Spec.Node != "" {
		who = "for node " + kept.Spec.Node + " of pool " + kept.Spec.Pool
	}
	often := "any number of times"
	switch uses := kept.Spec.Uses; {
	case uses == 1:
		often = "once"
	case uses > 1:
		often = fmt.Sprintf("%d times", uses)
	}
	end := kept.Spec.Expires.Time
	return fmt.Sprintf("token %s: %s, %s, until %s (%s)", kept.Name, who, often, end.UTC().Format("2006-01-02 15:04 UTC"), lasting(end, now))
}

// lasting is how long it is until an end, in words such as 24h. A token of a day that was made just now lasts 24h, not 23, and
// one of an hour 1h, not 60m.
func lasting(end, now time.Time) string {
	const lost = 2 * time.Second // by making it, and since it ends at a whole second
	left := end.Add(lost).Sub(now)
	switch {
	case left >= time.Hour && left < time.Hour+lost:
		return "1h"
	case left >= time.Minute && left < time.Minute+lost:
		return "1m"
	}
	return inspect.Age(now, end.Add(lost))
}

// readTokens lists the tokens of a pool, or all of them, newest first.
func readTokens(ctx context.Context, c client.Client, pool string) ([]v1alpha1.ProvisioningToken, error) {
	var all v1alpha1.ProvisioningTokenList
	if err := c.List(ctx, &all); err != nil {
		return nil, undone("reading ProvisioningTokens", err)
	}
	out := slices.DeleteFunc(all.Items, func(t v1alpha1.ProvisioningToken) bool { return pool != "" && t.Spec.Pool != pool })
	slices.SortFunc(out, func(a, b v1alpha1.ProvisioningToken) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out, nil
}

// completePools offers the pools of the cluster.
func (t *target) completePools(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return t.complete(cmd, func(ctx context.Context, c client.Client) ([]string, error) { return listNames(ctx, c, aPool) })
}

// completeTokens offers the ids of tokens that can still be revoked, with what they are for.
func (t *target) completeTokens(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return t.complete(cmd, func(ctx context.Context, c client.Client) ([]string, error) {
		all, err := readTokens(ctx, c, "")
		var out []string
		for i := range all {
			if now := time.Now(); !slices.Contains(args, all[i].Name) && token.State(&all[i], now) == token.Good {
				_, what, _ := strings.Cut(about(&all[i], now), ": ")
				out = append(out, cobra.CompletionWithDesc(all[i].Name, what))
			}
		}
		return out, err
	})
}

// complete asks the cluster, and offers nothing where it does not answer.
func (t *target) complete(cmd *cobra.Command, ask func(context.Context, client.Client) ([]string, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	const quiet = cobra.ShellCompDirectiveNoFileComp
	c, err := t.connect("table")
	if err != nil {
		return nil, quiet
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
	defer cancel()
	offers, err := ask(ctx, c)
	if err != nil {
		return nil, quiet
	}
	return offers, quiet
}

// say writes a line for the person, beside the data that standard output has.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "%s\n", harmless(fmt.Sprintf(format, args...)))
}
