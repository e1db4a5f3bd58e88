package machines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/mcs/files"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// Creation is one run of the verb token create.
type Creation struct {
	Grant
	Form       cli.Output
	Offline    bool
	TokensFile string
}

// Run creates a token and prints it.
func (t *Creation) Run(cmd *cobra.Command) error {
	if err := t.Form.Check(); err != nil {
		return err
	}
	if err := t.check(); err != nil {
		return err
	}
	out, notes := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if t.Offline || t.TokensFile != "" {
		return t.createOffline(out, notes)
	}
	c, err := t.Connect()
	if err != nil {
		return err
	}
	made, kept, err := t.create(cmd.Context(), c)
	if err != nil {
		return err
	}
	cli.Say(notes, "%s; bunsen prints the token only now", Describe(kept, time.Now()))
	return t.print(out, made, kept)
}

func (t *Creation) createOffline(out, notes io.Writer) error {
	made, kept, err := t.newToken()
	if err != nil {
		return err
	}
	if t.Offline {
		object, err := files.TokenDocument(kept)
		if err != nil {
			return err
		}
		cli.Say(notes, "%s; store the object on standard output. bunsen prints the token only now:",
			Describe(kept, time.Now()))
		cli.Say(notes, "%s", made.String())
		_, err = fmt.Fprintf(out, "---\n%s", object)
		return err
	}
	if err := files.AppendToken(t.TokensFile, kept); err != nil {
		return cli.Invalid(err)
	}
	cli.Say(notes, "%s; bunsen prints the token only now, and stored its hash in %s", Describe(kept, time.Now()),
		t.TokensFile)
	return t.print(out, made, kept)
}

type madeToken struct {
	ID      string    `json:"id"`
	Token   string    `json:"token"`
	Pool    string    `json:"pool"`
	Node    string    `json:"node,omitempty"`
	Uses    int32     `json:"uses"`
	Expires time.Time `json:"expires"`
}

// print writes the token to standard output, and nothing else ever does.
func (t *Creation) print(w io.Writer, made join.Token, kept *v1alpha1.ProvisioningToken) error {
	return t.Form.Print(w, made.String()+"\n", madeToken{
		made.ID, made.String(), kept.Spec.Pool, kept.Spec.Node,
		kept.Spec.Uses, kept.Spec.Expires.Time,
	})
}

// Grant has the options of new tokens.
type Grant struct {
	kube.Target
	grant join.TokenOptions
	ttl   Lifetime
}

// Lifetime is a cli.Span that also stores its text from the command line.
type Lifetime struct {
	cli.Span
	typed string
}

// String returns the text from the command line.
func (l *Lifetime) String() string { return l.typed }

// Set parses the text like cli.Span.
func (l *Lifetime) Set(text string) error {
	l.typed = text
	return l.Span.Set(text)
}

// Flags adds the flags for the machines and the lifetime of a token.
func (g *Grant) Flags(cmd *cobra.Command) {
	g.Target.AddFlags(cmd)
	g.ttl = Lifetime{cli.Span(24 * time.Hour), "24h"}
	cmd.Flags().StringVar(&g.grant.Pool, "pool", "", "the pool of the new machines")
	cmd.Flags().StringVar(&g.grant.Node, "node", "", "make the token for this one node, which gets the secrets of "+
		"its config at once; empty: any machine of the pool")
	cmd.Flags().Int32Var(&g.grant.Uses, "uses", 0, "how often a config is served to the token; 0: any number of times")
	cmd.Flags().Var(&g.ttl, "ttl", "how long the token is good, such as 30m, 24h or 7d; at most 90d")
	cli.CompleteFlag(cmd, "pool", kube.CompletePools)
}

// check returns the errors of the options, before a request is sent or a token created.
func (g *Grant) check() error {
	g.grant.TTL = time.Duration(g.ttl.Span)
	if g.grant.Pool == "" {
		return cli.Invalid(errors.New("say which pool the new machines are of: --pool NAME"))
	}
	var errs []error
	asked := g.grant
	if asked.TTL < join.MinTTL || asked.TTL > join.MaxTTL {
		errs = append(errs, fmt.Errorf("--ttl %s: it must be between 1m and 90d; create a new token when this one "+
			"expires", g.ttl.typed))
		asked.TTL = join.MaxTTL // The value is replaced so that Check does not report the same flag again.
	}
	if err := errors.Join(append(errs, asked.Check())...); err != nil {
		return cli.Invalid(err)
	}
	return nil
}

// PoolOnly refuses arguments, and suggests that one is the name of the pool. It does not repeat a token.
func (g *Grant) PoolOnly(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case strings.HasPrefix(args[0], "bunsen."):
		return errors.New("unexpected argument 1: is it a token? Give it with --token")
	case g.grant.Pool == "":
		return fmt.Errorf("unexpected argument %q: did you mean --pool %s?", args[0],
			strings.TrimPrefix(args[0], "pool/"))
	}
	return fmt.Errorf("unexpected argument %q", args[0])
}

func (g *Grant) newToken() (join.Token, *v1alpha1.ProvisioningToken, error) {
	t, err := join.NewToken(rand.Reader)
	if err != nil {
		return join.Token{}, nil, err
	}
	return t, g.grant.Object(t, time.Now()), nil
}

// create requires that the cluster has the pool.
func (g *Grant) create(ctx context.Context, c client.Client) (join.Token, *v1alpha1.ProvisioningToken, error) {
	pools, err := kube.ListNames(ctx, c, kube.KindPool)
	if err != nil {
		return join.Token{}, nil, kube.RequestError("reading MachineConfigPools", err)
	}
	if err := CheckPool(pools, g.grant.Pool); err != nil {
		return join.Token{}, nil, err
	}
	t, kept, err := g.newToken()
	if err != nil {
		return join.Token{}, nil, err
	}
	err = fault.APIRequest(c.Create(ctx, kept, client.FieldOwner("bunsen")))
	if fault.IsUnknown(err) {
		// Without a look, the token could exist although nobody has its secret.
		made := &v1alpha1.ProvisioningToken{}
		lookErr := c.Get(ctx, client.ObjectKeyFromObject(kept), made)
		if lookErr == nil && made.Spec.Hash == kept.Spec.Hash {
			return t, made, nil
		}
		if client.IgnoreNotFound(lookErr) != nil {
			err = fmt.Errorf("%w; if token %s exists, revoke it: bunsen token revoke %s", err, kept.Name, kept.Name)
		}
	}
	if err != nil {
		return join.Token{}, nil, kube.RequestError("making a token", err)
	}
	return t, kept, nil
}

// CheckPool returns an error if the list of pools does not contain a pool.
func CheckPool(pools []string, pool string) error {
	if slices.Contains(pools, pool) {
		return nil
	}
	there := "it has none yet"
	if len(pools) > 0 {
		there = "it has " + strings.Join(pools, ", ")
	}
	return cli.Invalid(fmt.Errorf("the cluster has no pool %q: %s", pool, there))
}

// PermissionHint adds to a permission error which role allows users to manage tokens.
func PermissionHint(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w; ClusterRole bunsen-provisioner and the Role of that name in bunsen-system grant it", err)
}

// NoFile adds the flag --tokens-file of the verb token create as a hidden one, which says what to do instead.
func NoFile(cmd *cobra.Command, instead string) {
	const name = "tokens-file"
	cmd.Flags().String(name, "", "is for token create")
	_ = cmd.Flags().MarkHidden(name) // No error is possible, because the flag exists.
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed(name) {
			return errors.New("--tokens-file is for `bunsen token create`: " + instead)
		}
		return nil
	}
}

// Describe returns one line that says what a token is for and until when it is valid.
func Describe(kept *v1alpha1.ProvisioningToken, now time.Time) string {
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
	return fmt.Sprintf("token %s: %s, %s, until %s (%s)", kept.Name, who, often,
		end.UTC().Format("2006-01-02 15:04 UTC"), lasting(end, now))
}

// lasting says how long a token is valid: 24h and not 23h for a new token of one day, 1h and not 60m for one of an
// hour.
func lasting(end, now time.Time) string {
	const lost = 2 * time.Second // The creation takes some time, and the end is a whole second.
	left := end.Add(lost).Sub(now)
	switch {
	case left >= time.Hour && left < time.Hour+lost:
		return "1h"
	case left >= time.Minute && left < time.Minute+lost:
		return "1m"
	}
	return terminal.Age(now, end.Add(lost))
}

// ReadTokens lists the tokens of one pool or of all pools, newest first.
func ReadTokens(ctx context.Context, c client.Client, pool string) ([]v1alpha1.ProvisioningToken, error) {
	var all v1alpha1.ProvisioningTokenList
	if err := c.List(ctx, &all); err != nil {
		return nil, kube.RequestError("reading ProvisioningTokens", err)
	}
	out := slices.DeleteFunc(all.Items, func(t v1alpha1.ProvisioningToken) bool {
		return pool != "" && t.Spec.Pool != pool
	})
	slices.SortFunc(out, func(a, b v1alpha1.ProvisioningToken) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out, nil
}

// CompleteTokens offers the ids of the tokens that a user can still revoke, each with its purpose.
var CompleteTokens = kube.Complete(math.MaxInt, func(ctx context.Context, c client.Client, args []string) (out []string,
	err error,
) {
	all, err := ReadTokens(ctx, c, "")
	now := time.Now()
	for i := range all {
		if !slices.Contains(args, all[i].Name) && join.TokenState(&all[i], now) == join.Valid {
			_, what, _ := strings.Cut(Describe(&all[i], now), ": ")
			out = append(out, cobra.CompletionWithDesc(all[i].Name, what))
		}
	}
	return out, err
})

type tokenRow struct {
	ID       string              `json:"id"`
	Pool     string              `json:"pool"`
	Node     string              `json:"node,omitempty"`
	State    string              `json:"state"`
	Expires  time.Time           `json:"expires"`
	Uses     int32               `json:"uses"`
	Used     int32               `json:"used"`
	LastUsed time.Time           `json:"lastUsed,omitzero"`
	Recent   []v1alpha1.TokenUse `json:"recent,omitempty"`
	Created  time.Time           `json:"created"`
}

// TokenRows returns the rows of a table of tokens; never nil, so that JSON has an empty list.
func TokenRows(all []v1alpha1.ProvisioningToken, now time.Time) []tokenRow {
	rows := []tokenRow{}
	for i := range all {
		t := &all[i]
		row := tokenRow{
			ID: t.Name, Pool: t.Spec.Pool, Node: t.Spec.Node, State: join.TokenState(t,
				now), Expires: t.Spec.Expires.Time,
			Uses: t.Spec.Uses, Used: t.Status.Used, Recent: t.Status.Recent, Created: t.CreationTimestamp.Time,
		}
		if t.Status.LastUsed != nil {
			row.LastUsed = t.Status.LastUsed.Time
		}
		rows = append(rows, row)
	}
	return rows
}

// TokenTable returns a table of the rows with their ages.
func TokenTable(rows []tokenRow, now time.Time) terminal.Table {
	t := terminal.Table{Head: []string{"ID", "POOL", "NODE", "STATE", "EXPIRES", "USED", "LAST USED", "FROM", "AGE"}}
	for _, r := range rows {
		node, expires, used, last, from := "any", "in "+lasting(r.Expires, now), fmt.Sprint(r.Used), "-", "-"
		if r.Node != "" {
			node = r.Node
		}
		if !now.Before(r.Expires) {
			expires = terminal.Age(r.Expires, now) + " ago"
		}
		if r.Uses > 0 {
			used = fmt.Sprintf("%d of %d", r.Used, r.Uses)
		}
		if !r.LastUsed.IsZero() {
			last = terminal.Age(r.LastUsed, now) + " ago"
		}
		if n := len(r.Recent); n > 0 {
			from = r.Recent[n-1].Address
		}
		t.Rows = append(t.Rows, []string{
			r.ID, r.Pool, node, r.State, expires, used, last, from,
			terminal.Age(r.Created, now),
		})
	}
	return t
}

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
