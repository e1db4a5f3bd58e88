package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// keepTokensEvery is how long changes of tokens gather before they are kept.
const keepTokensEvery = time.Second

// What may become of a write to a token.
var (
	// errConflict: somebody else wrote it meanwhile.
	errConflict = errors.New("somebody else wrote it meanwhile")
	// errGone: it is there no more.
	errGone = errors.New("the token is there no more")
)

// tokens are the ProvisioningTokens of the cluster.
type tokens struct {
	client   rest.Interface
	informer cache.SharedIndexInformer
	keeper   Keeper
	changed  chan struct{}
	kept     atomic.Pointer[map[string]*v1alpha1.ProvisioningToken] // of an earlier life, in force until the informer knows
	log      *slog.Logger
}

func newTokens(api clients, o Options) (*tokens, error) {
	list := cache.NewListWatchFromClient(api.tokens, "provisioningtokens", "", fields.Everything())
	t := &tokens{
		client:   api.tokens,
		informer: cache.NewSharedIndexInformer(list, &v1alpha1.ProvisioningToken{}, 0, nil),
		keeper:   o.Keeper,
		changed:  make(chan struct{}, 1),
		log:      o.Log,
	}
	return t, follow(t.informer, "tokens", o.Log, func(string) { t.change() })
}

// change says that there is something to keep.
func (t *tokens) change() {
	select {
	case t.changed <- struct{}{}:
	default: // somebody has said so already
	}
}

// known is a token by its id, or nil.
func (t *tokens) known(id string) *v1alpha1.ProvisioningToken {
	if !t.informer.HasSynced() {
		if kept := t.kept.Load(); kept != nil {
			return (*kept)[id]
		}
		return nil
	}
	object, exists, err := t.informer.GetStore().GetByKey(id)
	if known, ok := object.(*v1alpha1.ProvisioningToken); ok && exists && err == nil {
		return known
	}
	return nil
}

// read is a token as the API server has it now, or errGone.
func (t *tokens) read(ctx context.Context, id string) (*v1alpha1.ProvisioningToken, error) {
	out := &v1alpha1.ProvisioningToken{}
	err := t.client.Get().Resource("provisioningtokens").Name(id).Do(ctx).Into(out)
	if apierrors.IsNotFound(err) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("reading token %s: %w", id, err)
	}
	return out, nil
}

// write gives a token another status, where it is still the version that is given: errConflict or errGone otherwise. It
// returns the token as it is then.
func (t *tokens) write(ctx context.Context, known *v1alpha1.ProvisioningToken, status v1alpha1.ProvisioningTokenStatus) (*v1alpha1.ProvisioningToken, error) {
	next, out := known.DeepCopy(), &v1alpha1.ProvisioningToken{}
	next.Status = status
	err := t.client.Put().Resource("provisioningtokens").Name(known.Name).SubResource("status").Body(next).Do(ctx).Into(out)
	switch {
	case apierrors.IsConflict(err):
		return nil, errConflict
	case apierrors.IsNotFound(err):
		return nil, errGone
	case err != nil:
		return nil, fmt.Errorf("writing the uses of token %s: %w", known.Name, err)
	}
	return out, nil
}

// keep keeps the tokens, soon after they change, until the context ends.
func (t *tokens) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		}
		gather := time.NewTimer(keepTokensEvery)
		select {
		case <-ctx.Done(): // what has changed is kept all the same
		case <-gather.C:
		}
		gather.Stop()
		if !t.informer.HasSynced() {
			continue // half a list is none
		}
		if err := t.save(); err != nil {
			t.log.Warn("keeping the tokens for a start without the API server", "error", err)
		}
	}
}

func (t *tokens) save() error {
	all := []v1alpha1.ProvisioningToken{}
	for _, object := range t.informer.GetStore().List() {
		if known, ok := object.(*v1alpha1.ProvisioningToken); ok {
			all = append(all, *known)
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding %d tokens: %w", len(all), err)
	}
	return t.keeper.Put(tokensKey, raw)
}
