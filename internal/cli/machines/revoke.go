package machines

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

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// Revocation has the common options of the verbs that revoke or delete tokens.
type Revocation struct {
	kube.Target
	dryRun bool
}

// Flags adds the flags of a verb that revokes or deletes tokens.
func (e *Revocation) Flags(cmd *cobra.Command) {
	e.Target.AddFlags(cmd)
	cmd.Flags().BoolVar(&e.dryRun, "dry-run", false, "let the server check what would be changed, and change nothing")
}

func (e *Revocation) didText(text string) string {
	if e.dryRun {
		return text + " (dry run: nothing is changed)"
	}
	return text
}

// IdsOf reads ids or tokens. An error does not repeat an invalid argument, because it may be most of a secret.
func IdsOf(args []string) ([]string, error) {
	var out []string
	var errs []error
	for i, arg := range args {
		t, err := join.ParseToken(arg)
		switch {
		case err == nil:
			out = append(out, t.ID)
		case join.IsID(arg):
			out = append(out, arg)
		default:
			errs = append(errs, fmt.Errorf("argument %d is no id of a token: want 10 letters and digits, as `bunsen "+
				"token list` shows them", i+1))
		}
	}
	return out, errors.Join(errs...)
}

// Revoke revokes one token.
func (e *Revocation) Revoke(ctx context.Context, w io.Writer, c client.Client, id string) error {
	const patch = `{"spec":{"revoked":true}}`
	var kept v1alpha1.ProvisioningToken
	switch err := c.Get(ctx, client.ObjectKey{Name: id}, &kept); {
	case apierrors.IsNotFound(err):
		return cli.Invalid(fmt.Errorf("there is no token %s; `bunsen token list` lists them", id))
	case err != nil:
		return kube.RequestError("revoking token "+id, err)
	case kept.Spec.Revoked:
		_, err := fmt.Fprintf(w, "token %s was revoked before\n", id)
		return err
	}
	options, dry := []client.PatchOption{client.FieldOwner("bunsen")}, ""
	if e.dryRun {
		options, dry = append(options, client.DryRunAll), " --dry-run=server"
	}
	if err := c.Patch(ctx, &kept, client.RawPatch(types.MergePatchType, []byte(patch)), options...); err != nil {
		return kube.RequestError("revoking token "+id, err)
	}
	_, err := fmt.Fprintf(w, "%s\n  kubectl patch provisioningtoken %s --type=merge -p '%s'%s\n",
		e.didText("token "+id+" is revoked"), id, patch, dry)
	return err
}

// Prune deletes the tokens that no machine can use any more.
func (e *Revocation) Prune(ctx context.Context, w io.Writer, c client.Client) error {
	all, err := ReadTokens(ctx, c, "")
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
		state := join.TokenState(&all[i], now)
		if state == join.Valid {
			continue
		}
		if err := c.Delete(ctx, &all[i], options...); client.IgnoreNotFound(err) != nil {
			errs = append(errs, kube.RequestError("deleting token "+all[i].Name, err))
			continue
		}
		deleted++
		text := fmt.Sprintf("token %s of pool %s is deleted: %s, made %s ago", all[i].Name, all[i].Spec.Pool, state,
			terminal.Age(all[i].CreationTimestamp.Time, now))
		if _, err := fmt.Fprintln(w, safetext.Lines(e.didText(text))); err != nil {
			return fmt.Errorf("printing the result: %w", err)
		}
	}
	if deleted == 0 && len(errs) == 0 {
		_, err := fmt.Fprintf(w, "Nothing to delete: %d tokens, all of them good.\n", len(all))
		return err
	}
	return errors.Join(errs...)
}
