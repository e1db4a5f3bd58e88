package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// object is one token in an API server's store: a write succeeds over the version that it names only.
type object struct {
	mu     sync.Mutex
	now    v1alpha1.ProvisioningToken
	writes int
	// before is called before each write, without the lock.
	before func() error
}

func newObject(uses int32) *object {
	o := &object{before: func() error { return nil }}
	o.now.Name, o.now.ResourceVersion = "aaaaaaaaaa", "v"
	o.now.Spec = v1alpha1.ProvisioningTokenSpec{
		Pool: "worker", Uses: uses,
		Expires: metav1.NewTime(time.Now().Add(time.Hour)),
	}
	return o
}

func (o *object) read(context.Context, string) (*v1alpha1.ProvisioningToken, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now.DeepCopy(), nil
}

func (o *object) write(_ context.Context, known *v1alpha1.ProvisioningToken,
	status v1alpha1.ProvisioningTokenStatus,
) (*v1alpha1.ProvisioningToken, error) {
	if err := o.before(); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if known.ResourceVersion != o.now.ResourceVersion {
		return nil, errConflict
	}
	o.writes++
	o.now.Status = status
	o.now.ResourceVersion += "+"
	return o.now.DeepCopy(), nil
}

// replica is a ledger over the object, which knows the token as it was made.
func (o *object) replica() *limitedUses {
	l := &limitedUses{store: o.write, read: o.read, now: time.Now}
	l.batches.Write = l.write
	return l
}

// ask has many machines use the token at once, and returns how many were served and the refusals of the others.
func ask(t *testing.T, n int, known *v1alpha1.ProvisioningToken,
	replicas ...*limitedUses,
) (served int, refused []error) {
	t.Helper()
	var mu sync.Mutex
	var machines sync.WaitGroup
	for i := range n {
		machines.Go(func() {
			err := replicas[i%len(replicas)].count(t.Context(), known, v1alpha1.TokenUse{Time: metav1.Now()})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				served++
				return
			}
			refused = append(refused, err)
		})
	}
	machines.Wait()
	return served, refused
}

func TestWhateverTheRaceEachUseHasOneWinner(t *testing.T) {
	for _, c := range []struct{ uses, machines, replicas int }{
		{1, 1, 1},
		{1, 50, 1},
		{1, 50, 3},
		{7, 200, 2},
		{200, 200, 4},
		{300, 200, 4},
	} {
		o := newObject(int32(c.uses))
		known := o.now.DeepCopy()
		var replicas []*limitedUses
		for range c.replicas {
			replicas = append(replicas, o.replica())
		}
		served, refused := ask(t, c.machines, known, replicas...)
		for _, l := range replicas {
			l.batches.Wait()
		}
		if want := min(c.uses, c.machines); served != want || int(o.now.Status.Used) != want {
			t.Errorf("%+v: %d were served and %d are counted, want %d", c, served, o.now.Status.Used, want)
		}
		for _, err := range refused {
			if !reasonIs(err, join.UsedUp) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

func TestAStormTakesFewWrites(t *testing.T) { synctest.Test(t, manyMachinesAtOnce) }

func manyMachinesAtOnce(t *testing.T) {
	o := newObject(1000)
	l, known := o.replica(), o.now.DeepCopy()
	begun, all := make(chan struct{}, 1000), make(chan struct{})
	o.before = func() error { begun <- struct{}{}; <-all; return nil }
	first := make(chan error, 1)
	go func() { first <- l.count(t.Context(), known, v1alpha1.TokenUse{}) }()
	<-begun // its write takes until everybody else waits
	served := make(chan int)
	go func() { n, _ := ask(t, 999, known, l); served <- n }()
	synctest.Wait() // all others wait
	close(all)
	if n, err := <-served, <-first; n != 999 || err != nil || o.writes != 2 || o.now.Status.Used != 1000 {
		t.Errorf("%d and one (%v) were served, with %d writes; %d are counted", n, err, o.writes, o.now.Status.Used)
	}
}

func TestWhatCannotBeWrittenIsNotServed(t *testing.T) {
	o := newObject(5)
	away := errors.New("the API server is away")
	o.before = func() error { return away }
	served, refused := ask(t, 10, o.now.DeepCopy(), o.replica(), o.replica())
	if served != 0 || slices.ContainsFunc(refused, func(err error) bool { return !errors.Is(err, away) }) {
		t.Errorf("%d were served; %v", served, refused)
	}
}

func TestATokenThatEndsMeanwhileServesNobody(t *testing.T) {
	for because, change := range map[string]func(*v1alpha1.ProvisioningToken){
		"revoked": func(p *v1alpha1.ProvisioningToken) { p.Spec.Revoked = true },
		"expired": func(p *v1alpha1.ProvisioningToken) { p.Spec.Expires = metav1.NewTime(time.Now().Add(-time.Second)) },
		"used up": func(p *v1alpha1.ProvisioningToken) { p.Status.Used = 5 },
	} {
		o := newObject(5)
		known := o.now.DeepCopy()
		change(&o.now)
		o.now.ResourceVersion = "newer"
		err := o.replica().count(t.Context(), known, v1alpha1.TokenUse{})
		var refused *join.InvalidError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), because) {
			t.Errorf("%s: %v", because, err)
		}
	}
	o := newObject(5)
	o.before = func() error { return errGone }
	if err := o.replica().count(t.Context(), o.now.DeepCopy(), v1alpha1.TokenUse{}); !reasonIs(err, join.Unknown) {
		t.Errorf("deleted: %v", err)
	}
}

func TestAMachineThatHangsUpIsNotCountedUnlessItWasAlready(t *testing.T) {
	o := newObject(5)
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	o.before = func() error { begun <- struct{}{}; <-goOn; return nil }
	l, known := o.replica(), o.now.DeepCopy()
	ctx, hangUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- l.count(ctx, known, v1alpha1.TokenUse{}) }()
	<-begun // the first one is being written
	hangUp()
	if err := l.count(ctx, known, v1alpha1.TokenUse{}); !errors.Is(err, context.Canceled) {
		t.Errorf("one that only waited: %v", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("one that was counted: %v", err)
	}
	if err := l.count(t.Context(), known, v1alpha1.TokenUse{}); err != nil || o.now.Status.Used != 2 {
		t.Errorf("the next one: %v; %d are counted", err, o.now.Status.Used)
	}
}

// TestAWriteWithoutAnAnswerCountsOnce: a machine is served with the only use of its token, although the API server did
// not answer. Other machines, also at another replica at the same moment, are not.
func TestAWriteWithoutAnAnswerCountsOnce(t *testing.T) {
	for says, c := range map[string]struct {
		// lost are the numbers of the writes whose answers are lost. If away is true, these writes do not happen.
		lost []int
		away bool
		uses int32
	}{
		"the write happened":                   {lost: []int{1}, uses: 1},
		"the write did not happen":             {lost: []int{1}, away: true, uses: 1},
		"two writes got no answer":             {lost: []int{1, 2}, uses: 3},
		"two writes got no answer and are not": {lost: []int{1, 2}, away: true, uses: 3},
	} {
		t.Run(says, func(t *testing.T) {
			o := newObject(c.uses)
			known := o.now.DeepCopy()
			n := 0
			flaky := func() *limitedUses {
				l := o.replica()
				l.store = func(ctx context.Context, known *v1alpha1.ProvisioningToken,
					status v1alpha1.ProvisioningTokenStatus,
				) (*v1alpha1.ProvisioningToken, error) {
					o.mu.Lock()
					n++
					isLost := slices.Contains(c.lost, n)
					o.mu.Unlock()
					if !isLost {
						return o.write(ctx, known, status)
					}
					if !c.away {
						_, _ = o.write(ctx, known, status)
					}
					return nil, fault.NewUnknown(errors.New("the connection was closed"))
				}
				return l
			}
			served := 0
			at := metav1.Now()
			for _, replica := range []*limitedUses{flaky(), flaky()} {
				for range c.uses {
					use := v1alpha1.TokenUse{Time: at, Address: "192.0.2.1", ID: rand.Text()}
					if err := replica.count(t.Context(), known, use); err == nil {
						served++
					} else if !reasonIs(err, join.UsedUp) {
						t.Error(err)
					}
				}
			}
			if served != int(c.uses) || o.now.Status.Used != c.uses {
				t.Errorf("%d were served and %d are counted, of %d", served, o.now.Status.Used, c.uses)
			}
		})
	}
}
