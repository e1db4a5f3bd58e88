package join_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// kept is what is kept of the token of ones: for pool worker, for a day from noon.
func kept(t testing.TB, change func(*v1alpha1.ProvisioningToken)) *v1alpha1.ProvisioningToken {
	t.Helper()
	k := join.TokenOptions{Pool: "worker", TTL: 24 * time.Hour}.Object(fresh(t, 1), noon)
	if change != nil {
		change(k)
	}
	return k
}

func TestWhoGetsAConfig(t *testing.T) {
	tok := fresh(t, 1)
	other := tok
	other.Secret = fresh(t, 2).Secret
	for sentence, c := range map[string]struct {
		token  join.Token
		known  *v1alpha1.ProvisioningToken
		pool   string
		after  time.Duration
		want   join.TokenReason
		status int
	}{
		"who has the token":                                      {tok, kept(t, nil), "worker", 0, "", 0},
		"until its last moment":                                  {tok, kept(t, nil), "worker", 24*time.Hour - 1, "", 0},
		"but not from its end on":                                {tok, kept(t, nil), "worker", 24 * time.Hour, join.Expired, 401},
		"not who has a token that nobody knows":                  {tok, nil, "worker", 0, join.Unknown, 401},
		"nor one with another secret":                            {other, kept(t, nil), "worker", 0, join.Wrong, 401},
		"nor is a token judged by what is kept of another":       {fresh(t, 2), kept(t, nil), "worker", 0, join.Unknown, 401},
		"nor of another pool":                                    {tok, kept(t, nil), "master", 0, join.OtherPool, 403},
		"nor one that was revoked":                               {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Revoked = true }), "worker", 0, join.Revoked, 403},
		"revoked and expired, it is revoked":                     {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Revoked = true }), "worker", 48 * time.Hour, join.Revoked, 403},
		"a use is left":                                          {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Uses, k.Status.Used = 2, 1 }), "worker", 0, "", 0},
		"none is left":                                           {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Uses, k.Status.Used = 2, 2 }), "worker", 0, join.UsedUp, 403},
		"without a bound it may be used any number of times":     {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Status.Used = 1 << 30 }), "worker", 0, "", 0},
		"a wrong secret learns nothing of a revoked token":       {other, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Revoked = true }), "worker", 0, join.Wrong, 401},
		"nor of an expired one":                                  {other, kept(t, nil), "worker", 48 * time.Hour, join.Wrong, 401},
		"nor of one for another pool":                            {other, kept(t, nil), "master", 0, join.Wrong, 401},
		"an object without a hash lets nobody in":                {join.Token{ID: tok.ID}, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Hash = "" }), "worker", 0, join.Wrong, 401},
		"an object without an end has ended":                     {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Expires = metav1.Time{} }), "worker", 0, join.Expired, 401},
		"the pool that is asked for may not be empty":            {tok, kept(t, nil), "", 0, join.OtherPool, 403},
		"who has the token of a node is not asked for a name":    {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Node = "worker-7" }), "worker", 0, "", 0},
		"a counter beyond its bound lets nobody in, either":      {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Uses, k.Status.Used = 1, 5 }), "worker", 0, join.UsedUp, 403},
		"what is kept of nobody but has the hash lets nobody in": {tok, kept(t, func(k *v1alpha1.ProvisioningToken) { k.Name = "" }), "worker", 0, join.Unknown, 401},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := join.CheckToken(c.token, c.known, c.pool, noon.Add(c.after))
			var refusal *join.InvalidError
			switch {
			case c.want == "" && err == nil:
			case !errors.As(err, &refusal) || refusal.Reason != c.want:
				t.Errorf("%v, want %q", err, c.want)
			case refusal.HTTPStatus() != c.status || refusal.ID != c.token.ID:
				t.Errorf("status %d of %s, want %d", refusal.HTTPStatus(), refusal.ID, c.status)
			case c.token.Secret != "" && strings.Contains(refusal.Error()+refusal.ClientMessage(), c.token.Secret):
				t.Errorf("it tells the secret: %v; %s", refusal, refusal.ClientMessage())
			}
		})
	}
}

// Who asks cannot tell an id that exists from one that does not; who reads the log can.
func TestWhatARefusalTells(t *testing.T) {
	all := []join.TokenReason{
		join.Missing, join.Malformed, join.Unknown, join.Wrong, join.Expired, join.Revoked,
		join.UsedUp, join.OtherPool,
	}
	logs := map[string]join.TokenReason{}
	for _, reason := range all {
		r := &join.InvalidError{ID: someID, Reason: reason}
		if r.ClientMessage() == "" || strings.Contains(r.ClientMessage(), someID) || strings.Contains(r.ClientMessage(),
			"\n") {
			t.Errorf("%s tells the client %q", reason, r.ClientMessage())
		}
		if !strings.Contains(r.Error(), someID) || strings.HasSuffix(r.Error(), ": ") {
			t.Errorf("%s tells the log %q", reason, r.Error())
		}
		if was, twice := logs[r.Error()]; twice {
			t.Errorf("%s and %s read the same in the log", was, reason)
		}
		logs[r.Error()] = reason
	}
	unknown, wrong := &join.InvalidError{Reason: join.Unknown}, &join.InvalidError{Reason: join.Wrong}
	if unknown.ClientMessage() != wrong.ClientMessage() || unknown.HTTPStatus() != wrong.HTTPStatus() {
		t.Errorf("%q, %q", unknown.ClientMessage(), wrong.ClientMessage())
	}
}

func TestWhatATokenIsInAWord(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(*v1alpha1.ProvisioningToken)
		after  time.Duration
		want   string
	}{
		"one that was just made":        {nil, 0, join.Valid},
		"one whose time is over":        {nil, 25 * time.Hour, "expired"},
		"one with all its uses used":    {func(k *v1alpha1.ProvisioningToken) { k.Spec.Uses, k.Status.Used = 1, 1 }, 0, "used up"},
		"one that somebody ended":       {func(k *v1alpha1.ProvisioningToken) { k.Spec.Revoked = true }, 25 * time.Hour, "revoked"},
		"one used up and then expired":  {func(k *v1alpha1.ProvisioningToken) { k.Spec.Uses, k.Status.Used = 1, 1 }, 25 * time.Hour, "expired"},
		"one with a use left, and good": {func(k *v1alpha1.ProvisioningToken) { k.Spec.Uses, k.Status.Used = 2, 1 }, 0, join.Valid},
	} {
		t.Run(sentence, func(t *testing.T) {
			known, now := kept(t, c.change), noon.Add(c.after)
			if got := join.TokenState(known, now); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			// What counts uses says the same of it.
			err := join.CheckUsable(known, now)
			if (err == nil) != (c.want == join.Valid) || err != nil && err.Error() != "provisioning token "+someID+
				": "+c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestATokenThatIsGoneIsSpent(t *testing.T) {
	var refusal *join.InvalidError
	if err := join.CheckUsable(nil, noon); !errors.As(err, &refusal) || refusal.Reason != join.Unknown {
		t.Error(err)
	}
}

func use(minute int) v1alpha1.TokenUse {
	return v1alpha1.TokenUse{
		Time: metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute)), Address: "192.0.2.1",
		Config: "rendered-worker-1",
	}
}

// Whatever the order in which requests of several replicas are judged and counted, a token is never used more often
// than it may be, as long as the count is written to the version of the object that was judged.
func TestATokenIsNeverUsedMoreOftenThanItMayBe(t *testing.T) {
	type replica struct {
		read    *v1alpha1.ProvisioningToken
		version int
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		stored, version, served := kept(t, func(k *v1alpha1.ProvisioningToken) { k.Spec.Uses = r.Int32N(5) + 1 }), 0,
			int32(0)
		replicas := make([]replica, r.IntN(4)+1)
		for step := range 60 {
			at := &replicas[r.IntN(len(replicas))]
			if at.read == nil || r.IntN(2) == 0 {
				at.read, at.version = stored.DeepCopy(), version
				continue
			}
			now := noon.Add(time.Duration(step) * time.Minute)
			if join.CheckToken(fresh(t, 1), at.read, "worker", now) != nil {
				continue
			}
			next := join.AddUse(at.read.Status, use(r.IntN(60)))
			if at.version != version {
				continue // somebody else wrote: the API server answers 409
			}
			stored.Status, version, served = next, version+1, served+1
		}
		if served > stored.Spec.Uses || stored.Status.Used != served {
			t.Fatalf("seed %d: served %d, counted %d of %d uses", seed, served, stored.Status.Used, stored.Spec.Uses)
		}
	}
}

func TestTheLastUsesAreRemembered(t *testing.T) {
	var status v1alpha1.ProvisioningTokenStatus
	for _, minute := range rand.New(rand.NewPCG(1, 2)).Perm(25) {
		before := status.DeepCopy()
		next := join.AddUse(status, use(minute))
		if diff := cmp.Diff(*before, status); diff != "" {
			t.Fatalf("counting changed what it was given:\n%s", diff)
		}
		status = next
	}
	if status.Used != 25 || !status.LastUsed.Equal(&metav1.Time{Time: use(24).Time.Time}) ||
		len(status.Recent) != v1alpha1.RecentTokenUses {
		t.Errorf("%d uses, last %v, %d remembered", status.Used, status.LastUsed, len(status.Recent))
	}
	for i, u := range status.Recent {
		if want := use(15 + i); !u.Time.Equal(&want.Time) {
			t.Errorf("remembered as number %d: %v, want %v", i, u.Time, want.Time)
		}
	}
	status.Used = 1<<31 - 1
	if got := join.AddUse(status, use(30)); got.Used != status.Used {
		t.Errorf("the counter turned over: %d", got.Used)
	}
}

func TestWhatATokenMayBeMadeFor(t *testing.T) {
	for sentence, c := range map[string]struct {
		grant join.TokenOptions
		want  []string
	}{
		"a pool, for a day":                {join.TokenOptions{Pool: "worker", TTL: 24 * time.Hour}, nil},
		"one node, once, for three months": {join.TokenOptions{Pool: "worker", Node: "worker-7.example.com", Uses: 1, TTL: join.MaxTTL}, nil},
		"not for no pool":                  {join.TokenOptions{TTL: time.Hour}, []string{`--pool "" is no name of a pool`}},
		"not for longer":                   {join.TokenOptions{Pool: "worker", TTL: join.MaxTTL + 1}, []string{"it must be between 1m and 90d"}},
		"not for a moment":                 {join.TokenOptions{Pool: "worker", TTL: time.Second}, []string{"--ttl 1s: it must be between 1m and 90d"}},
		"everything that is wrong is said": {join.TokenOptions{Pool: "a/b", Node: "N 1", Uses: -1}, []string{`--pool "a/b"`, `--node "N 1"`, "--uses -1", "--ttl 0s"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := c.grant.Check()
			if (err == nil) != (c.want == nil) {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			}
		})
	}
}

func TestWhatIsKeptOfAToken(t *testing.T) {
	tok := fresh(t, 1)
	got := join.TokenOptions{Pool: "worker", Node: "worker-7", Uses: 1, TTL: time.Hour}.Object(tok,
		noon.Add(time.Millisecond))
	want := &v1alpha1.ProvisioningToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: "bunsen.dev/v1alpha1", Kind: "ProvisioningToken"},
		ObjectMeta: metav1.ObjectMeta{Name: someID},
		Spec: v1alpha1.ProvisioningTokenSpec{
			Pool: "worker", Node: "worker-7", Uses: 1, Hash: tok.Hash(),
			Expires: metav1.NewTime(noon.Add(time.Hour)),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
