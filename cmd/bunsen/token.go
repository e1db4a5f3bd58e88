package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/cli/machines"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token create|list|revoke|prune", Short: "Manage provisioning tokens for new machines",
		GroupID: "machines",
		Long: `Create, list, revoke and delete provisioning tokens. With a provisioning token, a new machine gets its first config from the
machine-config-server. A token is valid for one pool until it expires, and optionally only for one node or a number of requests.
bunsen prints a token once; the cluster stores only its hash. "bunsen pointer" creates a token and writes it into a pointer
config.`,
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

func tokenCreateCommand() *cobra.Command {
	var t machines.Creation
	cmd := &cobra.Command{
		Use: "create --pool NAME", Short: "Create a token and print it once",
		Long: `Create a provisioning token and print only the token on standard output, for scripts. Standard error has the token's pool and
when it expires. The cluster has only the token's hash, so you cannot print the token again. Without --ttl, the token expires
after 24 hours. A machine may request its config more than once while it starts: set --uses one or two higher.

Without a cluster, --tokens-file FILE adds the token's object to the file that "machine-config-server --tokens-file" reads.
--offline prints the object on standard output, for such a file or for "kubectl apply -f -", and the token on standard error.

Exit codes: 0 created, 2 invalid input or no such pool, 3 cluster unreachable, or permission denied.`,
		Example: `  bunsen token create --pool worker --ttl 24h
  bunsen token create --pool worker --node worker-07 --uses 3 --ttl 1h -o json
  TOKEN=$(bunsen token create --pool worker)
  TOKEN=$(bunsen token create --pool master --tokens-file tokens.yaml)
  bunsen token create --pool master --offline >> tokens.yaml`,
		Args: t.PoolOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return machines.PermissionHint(t.Run(cmd)) },
	}
	t.Flags(cmd)
	t.Form.AddFlag(cmd, "token, json or yaml: only the token, or the token with its pool, node and limits", "token",
		"json", "yaml")
	cmd.Flags().BoolVar(&t.Offline, "offline", false, "use no cluster: print the token's object, and the token on "+
		"standard error")
	cmd.Flags().StringVar(&t.TokensFile, "tokens-file", "", "use no cluster: add the token's object to this file")
	cmd.MarkFlagsMutuallyExclusive("offline", "tokens-file")
	cmd.MarkFlagsMutuallyExclusive("offline", "output")
	return cmd
}

func tokenRevokeCommand() *cobra.Command {
	var e machines.Revocation
	cmd := &cobra.Command{
		Use: "revoke ID...", Short: "Revoke tokens",
		Long: `Revoke tokens: from then on, the server rejects machines that use a revoked token. Machines keep the configs that they have
already fetched. ID is a token's id, or the token itself. A revoked token stays revoked; list shows it until "bunsen token
prune" deletes it.

Exit codes: 0 revoked, now or earlier; 2 no such token; 3 cluster unreachable, or permission denied.`,
		Example: `  bunsen token revoke abcdefghij
  bunsen token revoke abcdefghij klmnopqrst --dry-run`,
		Args:              needsArgs(1, math.MaxInt, "revoke needs ids of tokens; `bunsen token list` lists them"),
		ValidArgsFunction: machines.CompleteTokens,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := machines.IdsOf(args)
			if err != nil {
				return cli.Invalid(err)
			}
			c, err := e.Connect()
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range ids { // An unknown id does not prevent that the command revokes the other tokens.
				errs = append(errs, e.Revoke(cmd.Context(), cmd.OutOrStdout(), c, id))
			}
			return machines.PermissionHint(errors.Join(errs...))
		},
	}
	e.Flags(cmd)
	machines.NoFile(cmd, "to revoke a token of a file, edit the file: write `revoked: true` into the token's spec")
	return cmd
}

func tokenPruneCommand() *cobra.Command {
	var e machines.Revocation
	cmd := &cobra.Command{
		Use: "prune", Short: "Delete expired, revoked and exhausted tokens",
		Long: `Delete the tokens that are expired, used up or revoked, and list them. For a deleted token, only the server's audit log still
has who used it and when.

Exit codes: 0 done, even if no token was deleted; 3 cluster unreachable, or permission denied.`,
		Example: `  bunsen token prune --dry-run
  bunsen token prune`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := e.Connect()
			if err != nil {
				return err
			}
			return machines.PermissionHint(e.Prune(cmd.Context(), cmd.OutOrStdout(), c))
		},
	}
	e.Flags(cmd)
	machines.NoFile(cmd, "to delete a token of a file, remove the token's document from the file")
	return cmd
}

func tokenListCommand() *cobra.Command {
	var pool string
	cmd := &cobra.Command{
		Use: "list", Short: "List the tokens: pool, expiry, number of uses, and the last client",
		Long: `List the tokens, newest first. STATE is good, expired, used up or revoked. USED is how often the server served a config, and the
limit. FROM is the address of the last request. The cluster does not store the tokens themselves, so bunsen cannot list them.`,
		Example: `  bunsen token list
  bunsen token list --pool worker -o json`,
		Args: cobra.NoArgs,
	}
	machines.NoFile(cmd, "the file of tokens lists them itself; to revoke a token, edit the file: write `revoked: "+
		"true` into the token's spec")
	cmd.Flags().StringVar(&pool, "pool", "", "list the tokens of this pool only")
	cli.CompleteFlag(cmd, "pool", kube.CompletePools)
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		all, err := machines.ReadTokens(ctx, q.client, pool)
		if err != nil {
			return answer{}, machines.PermissionHint(err)
		}
		if len(all) == 0 && pool != "" { // A deleted pool may still have tokens.
			if pools, err := kube.ListNames(ctx, q.client, kube.KindPool); err == nil {
				if err := machines.CheckPool(pools, pool); err != nil {
					return answer{}, err
				}
			}
		}
		rows := machines.TokenRows(all, q.now)
		text := machines.TokenTable(rows, q.now).String()
		if text == "" {
			text = "No tokens; `bunsen token create --pool NAME` creates one.\n"
		}
		return answer{text: text, data: rows}, nil
	})
}
