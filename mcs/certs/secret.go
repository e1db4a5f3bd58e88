package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	// firstLook is how long a start waits for the API server before it goes on with what it has.
	firstLook = 5 * time.Second
	// attempts of one look to write before another replica does.
	attempts = 10
	// lostPatience is how long a replica that does not know the CA waits for one that does to write a deleted Secret back,
	// before it makes another CA.
	lostPatience = 5 * lookAgain
)

// Secret says where the certificates of all replicas lie in a cluster.
type Secret struct {
	// Namespace of all of them.
	Namespace string
	// Name of the Secret with tls.crt and tls.key, as cert-manager and kubectl make them. One that somebody else wrote is
	// used as it is, with its ca.crt if it has one; one that is not there or empty is made.
	Name string
	// CA is the name of the Secret of the CA's certificate and key, and of the ConfigMap that says whom to believe.
	CA string
	// Hostnames are the names and addresses that machines ask for; the loopback's are added.
	Hostnames []string
	// Cache is a directory where the certificate is kept for a start without API server; none where it is empty. A CA that
	// an earlier server without a Secret made there becomes the Secret's.
	Cache string
}

// secrets is a place in a cluster, shared by all replicas.
//
// Reads: Secret, ConfigMap (get). Writes: the same.
type secrets struct {
	client typed.CoreV1Interface
	Secret
	names []string
	log   *slog.Logger
	// known is the CA as this replica saw it last; ca and caKey only.
	known material
	// lostSince is when the CA was first seen missing, with nobody here who knows it.
	lostSince time.Time
}

// OpenSecret makes or reads certificates in Secrets. An API server that is away is no error: until it is there, what the
// cache has is shown, and Run tries again.
func OpenSecret(ctx context.Context, config *rest.Config, s Secret, log *slog.Logger) (*Certificates, error) {
	at, err := newSecrets(config, s, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	return at.open(ctx, time.Now()), nil
}

func newSecrets(config *rest.Config, s Secret, log *slog.Logger) (*secrets, error) {
	names, err := checkNames(s.Hostnames)
	if err != nil {
		return nil, err
	}
	client, err := typed.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client: %w", err)
	}
	return &secrets{client: client, Secret: s, names: names, log: log}, nil
}

// open looks for the first time.
func (s *secrets) open(ctx context.Context, now time.Time) *Certificates {
	c := &Certificates{place: s, log: s.log}
	s.inherit()
	if err := c.Refresh(ctx, now); err != nil {
		s.log.Warn("looking for the certificate's Secret, will try again", "secret", s.where(s.Name), "error", err)
	}
	if c.current.Load() == nil {
		s.recall(c)
	}
	return c
}

// look is once, again and again while other replicas are faster.
func (s *secrets) look(ctx context.Context, now time.Time) (*shown, error) {
	for range attempts {
		out, err := s.once(ctx, now)
		if errors.Is(err, errMoved) {
			continue
		}
		if err == nil {
			err = s.publish(ctx, out)
		}
		return out, errors.Join(err, s.remember(out))
	}
	return nil, fmt.Errorf("writing Secret %s: it changed under us %d times", s.where(s.Name), attempts)
}

// once reads what there is, and writes what has to change. The error is errMoved where somebody was faster.
func (s *secrets) once(ctx context.Context, now time.Time) (*shown, error) {
	leaf, err := s.secret(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	if theirs(leaf, CertFile, CertKeyFile) {
		return showSecret(s.where(s.Name), leaf, false)
	}
	ca, err := s.secret(ctx, s.CA)
	if err != nil {
		return nil, err
	}
	have := material{ca: value(ca, CAFile), caKey: value(ca, CAKeyFile), cert: value(leaf, CertFile), key: value(leaf, CertKeyFile)}
	have.fixed = theirs(ca, CAFile, CAKeyFile)
	if have.ca == nil && have.caKey == nil {
		if stop, err := s.lost(ctx, &have, now); stop || err != nil {
			return remains(s.where(s.Name), leaf), err
		}
	}
	return s.renew(ctx, have, held{ca, leaf}, now)
}

// held are the Secrets as they were read; nil where they are not there.
type held struct{ ca, leaf *corev1.Secret }

// renew writes what is due, the CA first. What cannot be written leaves what is there to be shown.
func (s *secrets) renew(ctx context.Context, have material, was held, now time.Time) (*shown, error) {
	want, err := have.renewed(s.names, now)
	if err == nil && !have.fixed {
		_, err = s.put(ctx, was.ca, s.CA, corev1.SecretTypeOpaque, map[string][]byte{CAFile: want.ca, CAKeyFile: want.caKey})
	}
	leaf := was.leaf
	if err == nil {
		s.known, s.lostSince = material{ca: want.ca, caKey: want.caKey}, time.Time{}
		leaf, err = s.put(ctx, was.leaf, s.Name, corev1.SecretTypeTLS, map[string][]byte{CAFile: want.ca, CertFile: want.cert, CertKeyFile: want.key})
	}
	if err != nil {
		return remains(s.where(s.Name), was.leaf), err
	}
	return showSecret(s.where(s.Name), leaf, true)
}

// lost decides what happens where the CA's Secret is not there. It puts a CA that is known into have. It tells to stop
// where others may know more, or where a certificate of that CA still is good for a while.
func (s *secrets) lost(ctx context.Context, have *material, now time.Time) (stop bool, err error) {
	published, err := s.published(ctx)
	if err != nil {
		return true, err
	}
	made := have.cert != nil || published // there was a CA, and machines may have been told to believe it
	log := s.log.With("secret", s.where(s.CA))
	if s.known.caKey != nil {
		have.ca, have.caKey = s.known.ca, s.known.caKey
		if made {
			log.Error("the CA's Secret is gone, and every pointer config trusts that CA: writing it back from memory; make a copy of it")
		}
		return false, nil
	}
	if !made {
		return false, nil
	}
	if pair, err := tls.X509KeyPair(have.cert, have.key); err == nil && now.Before(pair.Leaf.NotAfter) {
		log.Error("the CA's Secret is gone, and this replica does not know the CA: restore it from a copy before the certificate ends, "+
			"for no other can be made that machines with today's pointer configs believe", "until", pair.Leaf.NotAfter)
		return true, nil
	}
	if s.lostSince.IsZero() {
		s.lostSince = now
	}
	if rest := s.lostSince.Add(lostPatience).Sub(now); rest > 0 {
		return true, fmt.Errorf("the CA's Secret %s is gone: another CA is made in %s unless it comes back, from a copy or from a replica that knows it", s.where(s.CA), rest.Round(time.Second))
	}
	log.Error("the CA's Secret is gone and did not come back: making another CA; every pointer config made until now is worthless, make new ones")
	return false, nil
}

// showSecret is a Secret's certificate.
func showSecret(at string, leaf *corev1.Secret, ours bool) (*shown, error) {
	m := material{ca: value(leaf, CAFile), cert: value(leaf, CertFile), key: value(leaf, CertKeyFile)}
	out, err := newShown(m, "Secret "+at, ours)
	if err != nil && !ours {
		err = fmt.Errorf("somebody else wrote Secret %s: put a certificate and its key there, or delete it to have one made: %w", at, err)
	}
	return out, err
}

// remains is what goes on being shown though something is wrong; nil where there is nothing that could be.
func remains(at string, leaf *corev1.Secret) *shown {
	out, err := showSecret(at, leaf, true)
	if err != nil {
		return nil // there is an error already that says why
	}
	return out
}

func (s *secrets) where(name string) string { return s.Namespace + "/" + name }
