package shelf

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// Form is one way to say a config.
type Form struct {
	// Version of Ignition.
	Version mcs.Version
	// Zipped is gzip, else the text as it is.
	Zipped bool
	// Withhold leaves secrets out.
	Withhold bool
}

// Offer is what one pool serves until the next one takes its place: one rendered config, and its body in each form, made
// once. An offer never changes what it says, so any number of requests share it; a Shelf makes them.
type Offer struct {
	in mcs.Input
	// unsafe is what no machine may boot of the rendered config, whoever wrote it.
	unsafe func() error
	mu     sync.Mutex
	bodies map[Form]*made
}

// made is one complete answer, or why there is none.
type made struct {
	once sync.Once
	over atomic.Bool // once is
	body Body
	err  error
}

func newOffer(in mcs.Input) *Offer {
	return &Offer{in: in, bodies: map[Form]*made{}, unsafe: sync.OnceValue(func() error { return check(in.Rendered) })}
}

// check repeats the checks that every config passes before it is rendered: the server does not rely on who wrote it.
func check(rendered *mcfgv1.MachineConfig) error {
	if rendered == nil {
		return nil
	}
	config, err := machineconfig.Parse(rendered.Spec)
	if err != nil {
		return nil // Compose reports it
	}
	if bad := machineconfig.Check(config); len(bad) > 0 {
		return fmt.Errorf("checking config %s: %w", rendered.Name, errors.Join(bad...))
	}
	return nil
}

// Config is the name of the rendered config.
func (o *Offer) Config() string { return o.in.Rendered.Name }

// Commit is the revision whose content the rendered config has, or "" when it came from no repository.
func (o *Offer) Commit() string { return o.in.Rendered.Annotations[v1alpha1.RevisionAnnotation] }

// Body returns the body in a form, made by the first who asks; others wait for that one. Errors are those of mcs.Compose.
func (o *Offer) Body(f Form) (Body, error) {
	o.mu.Lock()
	m := o.bodies[f]
	if m == nil {
		m = &made{}
		o.bodies[f] = m
	}
	o.mu.Unlock()
	m.once.Do(func() { m.from(func() (Body, error) { return o.make(f) }) })
	return m.body, m.err
}

// from is what making comes to. A panic of one pool's config is an error, to each who asks, and not the end of the server.
func (m *made) from(making func() (Body, error)) {
	defer m.over.Store(true)
	defer func() {
		if p := recover(); p != nil {
			m.body, m.err = Body{}, fmt.Errorf("making the config: a panic: %s", panicked(p))
		}
	}()
	m.body, m.err = making()
}

// panicked is what is told of a panic, to whoever asks: the runtime's own words, which have nothing of a config.
func panicked(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}

// make puts a body together. A zipped one is the plain one, zipped; one that withholds nothing is the whole one.
func (o *Offer) make(f Form) (Body, error) {
	if f.Zipped {
		plain, err := o.Body(Form{Version: f.Version, Withhold: f.Withhold})
		if err != nil {
			return Body{}, err
		}
		return zip(plain), nil
	}
	if err := o.unsafe(); err != nil {
		return Body{}, err
	}
	in := o.in
	in.Withhold = f.Withhold
	composed, err := mcs.Compose(in, f.Version)
	if err != nil {
		return Body{}, err
	}
	if f.Withhold && len(composed.Withheld) == 0 {
		return o.Body(Form{Version: f.Version})
	}
	return tagged(Body{Body: composed}), nil
}

// prepare makes the newest version's bodies before anybody asks, and those in the forms that were asked of an earlier
// offer, which may be nil. It returns the error of the newest version's, which then no version can be served without.
func (o *Offer) prepare(earlier *Offer) error {
	for _, f := range append(earlier.asked(), Form{Version: mcs.Newest, Withhold: true}) {
		_, _ = o.Body(f) // whoever asks is told
	}
	return o.problem()
}

// problem is why the newest version cannot be served, or nil.
func (o *Offer) problem() error {
	_, err := o.Body(Form{Version: mcs.Newest})
	return err
}

// asked lists the forms that were made.
func (o *Offer) asked() []Form {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var forms []Form
	for f, m := range o.bodies {
		if m.over.Load() {
			forms = append(forms, f)
		}
	}
	return forms
}
