package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// cluster is an API server for tests of watches: who may read what, and who reads.
type cluster struct {
	mu      sync.Mutex
	access  map[string]kube.Access
	refuses map[string]error // by user: the answer to any request
	reading map[string]kube.Receiver
}

// user is a user of the cluster, who may sign out.
func (c *cluster) user(name string) user {
	return user{
		config: &rest.Config{Username: name}, unauthorized: func() {},
		access: func(context.Context) (kube.Access, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.access[name], c.refuses[name]
		},
		follow: func(ctx context.Context, rc *rest.Config, _ client.Client, to kube.Receiver) error {
			c.mu.Lock()
			c.reading[rc.Username] = to
			c.mu.Unlock()
			<-ctx.Done()
			c.mu.Lock()
			if c.reading[rc.Username] == to { // It may read another watch already.
				delete(c.reading, rc.Username)
			}
			c.mu.Unlock()
			return nil
		},
	}
}

// readers are the users whose tokens read.
func (c *cluster) readers() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(slices.Sorted(maps.Keys(c.reading)))
}

// show sends a state to the watch of a user, with one pool of this name.
func (c *cluster) show(user, pool string) {
	c.mu.Lock()
	to := c.reading[user]
	c.mu.Unlock()
	_ = to.Show(context.Background(), fleet.Cluster{Pools: []mcfgv1.MachineConfigPool{{
		ObjectMeta: metav1.ObjectMeta{Name: pool},
	}}}, time.Time{})
	synctest.Wait()
}

// fail lets a read with the token of a user fail.
func (c *cluster) fail(user string, problem error) {
	c.mu.Lock()
	to := c.reading[user]
	c.mu.Unlock()
	_ = to.Problem(problem)
	synctest.Wait()
}

func (c *cluster) set(user string, access kube.Access, refuses error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access[user], c.refuses[user] = access, refuses
}

// page is an open page of a user.
type page struct {
	close context.CancelFunc
	mu    sync.Mutex
	pool  string
	why   string // why the state is not current
}

// open opens a page.
func open(t *testing.T, w *watches, u user) *page {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &page{close: cancel}
	go w.source(u)(ctx, func(s *state, problem error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.why = ""; errors.Is(problem, errForget) {
			p.pool = ""
			return
		}
		if problem != nil {
			p.why = problem.Error()
			return
		}
		p.pool = s.Pools[0].Name
	})
	synctest.Wait()
	return p
}

// sees fails the test unless a page shows a pool, and this problem.
func (p *page) sees(t *testing.T, pool, why string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool != pool || p.why != why {
		t.Errorf("the page shows %q with the problem %q, not %q with %q", p.pool, p.why, pool, why)
	}
}

// TestUsersShareWatches: users who may read the same get the states that one of them reads, and nobody else gets them.
func TestUsersShareWatches(t *testing.T) {
	var all, less kube.Access // Less is enough to follow the cluster.
	for i := range all {
		all[i], less[i] = true, i < 8
	}
	begin := func() (*cluster, *watches) {
		return &cluster{
			access:  map[string]kube.Access{"ada": all, "bob": all, "eve": less},
			refuses: map[string]error{}, reading: map[string]kube.Receiver{},
		}, &watches{}
	}
	reads := func(t *testing.T, c *cluster, want string) {
		t.Helper()
		if synctest.Wait(); c.readers() != want {
			t.Errorf("%s read, not %s", c.readers(), want)
		}
	}
	unauthorized := apierrors.NewUnauthorized("expired")
	for sentence, play := range map[string]func(t *testing.T, c *cluster, w *watches){
		"one reads for both": func(t *testing.T, c *cluster, w *watches) {
			ada, bob := open(t, w, c.user("ada")), open(t, w, c.user("bob"))
			c.show("ada", "one")
			reads(t, c, "[ada]")
			ada.sees(t, "one", "")
			bob.sees(t, "one", "")
		},
		"who comes later gets the state at once": func(t *testing.T, c *cluster, w *watches) {
			open(t, w, c.user("ada"))
			c.show("ada", "one")
			open(t, w, c.user("bob")).sees(t, "one", "")
		},
		"who may read less reads alone": func(t *testing.T, c *cluster, w *watches) {
			ada, eve := open(t, w, c.user("ada")), open(t, w, c.user("eve"))
			c.show("ada", "one")
			reads(t, c, "[ada eve]")
			ada.sees(t, "one", "")
			eve.sees(t, "", "")
			c.show("eve", "two")
			ada.sees(t, "one", "")
			eve.sees(t, "two", "")
		},
		"when the one who reads leaves, another one reads, and the state stays until then": func(t *testing.T,
			c *cluster, w *watches,
		) {
			ada, bob := open(t, w, c.user("ada")), open(t, w, c.user("bob"))
			c.show("ada", "one")
			ada.close()
			reads(t, c, "[bob]")
			bob.sees(t, "one", "")
			c.show("bob", "two")
			bob.sees(t, "two", "")
			ada.sees(t, "one", "")
		},
		"when the last one leaves, nobody reads, and the state is forgotten": func(t *testing.T, c *cluster,
			w *watches,
		) {
			ada := open(t, w, c.user("ada"))
			c.show("ada", "one")
			ada.close()
			reads(t, c, "[]")
			if len(w.all) != 0 {
				t.Errorf("%d watches are left", len(w.all))
			}
			open(t, w, c.user("bob")).sees(t, "", "")
		},
		"who loses a right loses the state, and gets no later one": func(t *testing.T, c *cluster, w *watches) {
			ada, bob := open(t, w, c.user("ada")), open(t, w, c.user("bob"))
			c.show("ada", "one")
			c.set("bob", less, nil)
			time.Sleep(accessAge)
			bob.sees(t, "", "")
			time.Sleep(accessAgain)
			reads(t, c, "[ada bob]")
			c.show("ada", "two")
			ada.sees(t, "two", "")
			bob.sees(t, "", "")
			c.show("bob", "less")
			bob.sees(t, "less", "")
		},
		"who loses all rights reads which one is missing": func(t *testing.T, c *cluster, w *watches) {
			bob := open(t, w, c.user("bob"))
			c.show("bob", "one")
			c.set("bob", kube.Access{}, nil)
			time.Sleep(accessAge + accessAgain)
			bob.sees(t, "", kube.Access{}.Check().Error())
			reads(t, c, "[]")
			c.set("bob", all, nil)
			time.Sleep(refusedAgain)
			reads(t, c, "[bob]")
		},
		"when the one who reads loses a right, another one reads": func(t *testing.T, c *cluster, w *watches) {
			ada, bob := open(t, w, c.user("ada")), open(t, w, c.user("bob"))
			c.show("ada", "one")
			c.set("ada", less, nil)
			time.Sleep(accessAge + accessAgain)
			reads(t, c, "[ada bob]")
			c.show("bob", "two")
			bob.sees(t, "two", "")
			ada.sees(t, "", "")
		},
		"who gets a right back shares again": func(t *testing.T, c *cluster, w *watches) {
			open(t, w, c.user("ada"))
			c.set("bob", less, nil)
			bob := open(t, w, c.user("bob"))
			c.show("ada", "one")
			c.set("bob", all, nil)
			time.Sleep(accessAge + accessAgain)
			reads(t, c, "[ada]")
			bob.sees(t, "one", "")
		},
		"a refusal of the one who reads is looked into at once, and names nobody": func(t *testing.T, c *cluster,
			w *watches,
		) {
			open(t, w, c.user("ada"))
			bob := open(t, w, c.user("bob"))
			c.show("ada", "one")
			c.set("ada", less, nil)
			c.fail("ada", apierrors.NewForbidden(mcfgv1.Resource("nodes"), "", errors.New(`user "ada"`)))
			time.Sleep(accessAgain)
			reads(t, c, "[ada bob]")
			c.show("bob", "two")
			bob.sees(t, "two", "")
			c.fail("bob", kube.ErrRefused)
			bob.sees(t, "two", errRefused.Error())
		},
		"a token that ends ends its own session only": func(t *testing.T, c *cluster, w *watches) {
			u, ended := c.user("ada"), false
			ctx, leave := context.WithCancel(t.Context())
			u.unauthorized = func() { ended = true; leave() }
			go w.source(u)(ctx, func(*state, error) {})
			synctest.Wait()
			bob := open(t, w, c.user("bob"))
			c.show("ada", "one")
			c.set("ada", all, unauthorized)
			c.fail("ada", unauthorized)
			time.Sleep(accessAgain)
			reads(t, c, "[bob]")
			bob.sees(t, "one", "")
			if !ended {
				t.Error("the session goes on")
			}
		},
		"a token that ends while another one reads ends the session too": func(t *testing.T, c *cluster, w *watches) {
			open(t, w, c.user("ada"))
			u, ended := c.user("bob"), false
			u.unauthorized = func() { ended = true }
			open(t, w, u)
			c.set("bob", all, unauthorized)
			time.Sleep(accessAge)
			if synctest.Wait(); !ended {
				t.Error("the session goes on")
			}
		},
		"who cannot read lets another one try, and an outage is told when none can": func(t *testing.T, c *cluster,
			w *watches,
		) {
			ada, bob := open(t, w, c.user("ada")), open(t, w, c.user("bob"))
			c.show("ada", "one")
			c.fail("ada", errors.New("no answer"))
			time.Sleep(accessAgain)
			reads(t, c, "[bob]")
			bob.sees(t, "one", "")
			c.fail("bob", errors.New("no answer"))
			ada.sees(t, "one", "no answer")
			bob.sees(t, "one", "no answer")
			c.set("eve", all, nil)
			open(t, w, c.user("eve")).sees(t, "one", "no answer") // who comes now
			time.Sleep(accessAgain)
			reads(t, c, "[ada]")
			c.show("ada", "two")
			bob.sees(t, "two", "")
		},
		"who comes while another one cannot read tries too": func(t *testing.T, c *cluster, w *watches) {
			open(t, w, c.user("ada"))
			c.fail("ada", errors.New("no answer"))
			open(t, w, c.user("bob"))
			c.fail("ada", errors.New("no answer"))
			time.Sleep(accessAgain)
			reads(t, c, "[bob]")
		},
		"in an outage, the last answer about rights counts, but not for ever": func(t *testing.T, c *cluster,
			w *watches,
		) {
			open(t, w, c.user("ada"))
			bob := open(t, w, c.user("bob"))
			c.set("bob", all, errors.New("no answer"))
			time.Sleep(longestDoubt - accessAge)
			c.show("ada", "one")
			bob.sees(t, "one", "")
			time.Sleep(2 * accessAge)
			c.show("ada", "two")
			bob.sees(t, "", "no answer")
		},
		"an answer that is no outage ends the reading": func(t *testing.T, c *cluster, w *watches) {
			open(t, w, c.user("ada"))
			bob := open(t, w, c.user("bob"))
			c.show("ada", "one")
			c.set("bob", all, apierrors.NewTooManyRequestsError("slow down"))
			time.Sleep(accessAge + accessAgain)
			bob.sees(t, "", "Too many requests: slow down")
		},
		"without an answer about rights, a page shows nothing": func(t *testing.T, c *cluster, w *watches) {
			open(t, w, c.user("ada"))
			c.show("ada", "one")
			c.set("bob", all, errors.New("no answer"))
			bob := open(t, w, c.user("bob"))
			bob.sees(t, "", "no answer")
			c.set("bob", all, nil)
			time.Sleep(accessAgain)
			bob.sees(t, "one", "")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, w := begin()
				play(t, c, w)
			})
		})
	}
}
