package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// ender is what the verbs that end tokens have in common.
type ender struct {
	target
	dryRun bool
}

func (e *ender) flags(cmd *cobra.Command) {
	e.target.flags(cmd)
	cmd.Flags().BoolVar(&e.dryRun, "dry-run", false, "let the server check what would be changed, and change nothing")
}

// meant adds to what was done that it was only tried.
func (e *ender) meant(text string) string {
	if e.dryRun {
		return text + " (dry run: nothing is changed)"
	}
	return text
}

func tokenRevokeCommand() *cobra.Command {
	var e ender
	cmd := &cobra.Command{
		Use: "revoke ID...", Short: "End tokens at once",
		Long: `End tokens at once: machines that ask with one are refused from then on. What they fetched before stays with them. The token
itself will do instead of its id. What is revoked stays revoked, and is listed until it is deleted: see "bunsen token prune".

Exit codes: 0 revoked, also if it was before; 2 no such token; 3 cluster out of reach, or permission denied.`,
		Example: `  bunsen token revoke abcdefghij
  bunsen token revoke abcdefghij klmnopqrst --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("revoke what? Name ids of tokens; `bunsen token list` has them")
			}
			return nil
		},
		ValidArgsFunction: e.completeTokens,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := idsOf(args)
			if err != nil {
				return invalid(err)
			}
			c, err := e.connect("table")
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range ids { // one that there is not keeps no other alive
				errs = append(errs, e.revoke(cmd.Context(), cmd.OutOrStdout(), c, id))
			}
			return provisioning(errors.Join(errs...))
		},
	}
	e.flags(cmd)
	noFile(cmd, "to revoke a token of a file edit the file: `revoked: true` in its spec")
	return cmd
}

// idsOf reads ids, or tokens. What is neither is not repeated: it may be most of a secret.
func idsOf(args []string) ([]string, error) {
	var out []string
	var errs []error
	for i, arg := range args {
		t, err := token.Parse(arg)
		switch {
		case err == nil:
			out = append(out, t.ID)
		case token.IsID(arg):
			out = append(out, arg)
		default:
			errs = append(errs, fmt.Errorf("argument %d is no id of a token: want 10 letters and digits, as `bunsen token list` shows them", i+1))
		}
	}
	return out, errors.Join(errs...)
}

func (e *ender) revoke(ctx context.Context, w io.Writer, c client.Client, id string) error {
	const patch = `{"spec":{"revoked":true}}`
	var kept v1alpha1.ProvisioningToken
	switch err := c.Get(ctx, client.ObjectKey{Name: id}, &kept); {
	case apierrors.IsNotFound(err):
		return invalid(fmt.Errorf("there is no token %s; `bunsen token list` lists them", id))
	case err != nil:
		return undone("revoking token "+id, err)
	case kept.Spec.Revoked:
		_, err := fmt.Fprintf(w, "token %s was revoked before\n", id)
		return err
	}
	options, dry := []client.PatchOption{client.FieldOwner("bunsen")}, ""
	if e.dryRun {
		options, dry = append(options, client.DryRunAll), " --dry-run=server"
	}
	if err := c.Patch(ctx, &kept, client.RawPatch(types.MergePatchType, []byte(patch)), options...); err != nil {
		return undone("revoking token "+id, err)
	}
	_, err := fmt.Fprintf(w, "%s\n  kubectl patch provisioningtoken %s --type=merge -p '%s'%s\n", e.meant("token "+id+" is revoked"), id, patch, dry)
	return err
}

func tokenPruneCommand() *cobra.Command {
	var e ender
	cmd := &cobra.Command{
		Use: "prune", Short: "Delete the tokens that are good for nothing any more",
		Long: `Delete the tokens that are expired, used up or revoked, and say which. Who used them, and when, is gone then: the server's
audit log has it still.

Exit codes: 0 done, also where there was none; 3 cluster out of reach, or permission denied.`,
		Example: `  bunsen token prune --dry-run
  bunsen token prune`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := e.connect("table")
			if err != nil {
				return err
			}
			return provisioning(e.prune(cmd.Context(), cmd.OutOrStdout(), c))
		},
	}
	e.flags(cmd)
	noFile(cmd, "to delete a token of a file take its document out")
	return cmd
}

func (e *ender) prune(ctx context.Context, w io.Writer, c client.Client) error {
	all, err := readTokens(ctx, c, "")
	if err != nil {
		return err
	}
	var options []client.DeleteOption
	if e.dryRun {
		options = append(options, client.DryRunAll)
	}
	var errs []error
	deleted, now := 0, time.Now()
	for i := range all {
		state := token.State(&all[i], now)
		if state == token.Good {
			continue
		}
		if err := c.Delete(ctx, &all[i], options...); client.IgnoreNotFound(err) != nil {
			errs = append(errs, undone("deleting token "+all[i].Name, err))
			continue
		}
		deleted++
		text := fmt.Sprintf("token %s of pool %s is deleted: %s, made %s ago", all[i].Name, all[i].Spec.Pool, state, inspect.Age(all[i].CreationTimestamp.Time, now))
		if _, err := fmt.Fprintln(w, harmless(e.meant(text))); err != nil {
			return fmt.Errorf("printing what was done: %w", err)
		}
	}
	if deleted == 0 && len(errs) == 0 {
		_, err := fmt.Fprintf(w, "Nothing to delete: %d tokens, all of them good.\n", len(all))
		return err
	}
	return errors.Join(errs...)
}
